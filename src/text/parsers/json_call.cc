#include "text/parsers/json_call.h"

#include <fmt/format.h>

#include <utility>

#include "text/json_machine.h"

namespace stoker {
namespace {

// What a call object has said so far.
struct CallFields {
  size_t begin = 0;            // the object's opening bracket
  size_t arguments_begin = 0;  // of their value
  bool has_name = false;
  int arguments = 0;  // how many members gave arguments
  std::string id;
  std::string conflict;  // a member that contradicts what was announced
};

constexpr const char* kTextEndsInValue = "the text ends in the middle of a value";

JsonPart invalid_part(const TurnScan& scan, const char* reason) {
  return {.ok = false, .position = scan.in.at(), .reason = reason, .recover_from = scan.in.at()};
}

JsonPart cut_off_part(const TurnScan& scan) {
  return {.ok = false,
          .cut = true,
          .position = scan.in.at(),
          .reason = kTextEndsInValue,
          .recover_from = scan.in.at()};
}

// Moves to the next part of an object or array: behind the comma, or behind the closing bracket (`end`).
Reading<JsonMember> next_part(TurnScan& scan, bool first, char bracket) {
  JsonMember member;
  int byte = co_await skip_blanks(scan);
  if (byte == bracket) {
    scan.in.skip(1);
    member.end = true;
    co_return member;
  }
  if (!first && byte != TurnInput::kEnd) {
    if (byte != ',') {
      member.part = invalid_part(scan, "a comma or a closing bracket was expected");
      co_return member;
    }
    scan.in.skip(1);
    byte = co_await skip_blanks(scan);
  }
  if (byte == TurnInput::kEnd) member.part = cut_off_part(scan);
  member.part.begin = scan.in.at();
  co_return member;
}

// The name is known and the arguments have begun: from here on it is a call.
void announce_when_known(TurnScan& scan, const CallFields& fields) {
  if (fields.has_name && fields.arguments > 0) scan.out.announce_call();
}

void take_call_name(TurnScan& scan, CallFields& fields, std::string name) {
  if (scan.out.call_is_announced()) {
    if (name != scan.out.call().call.name) fields.conflict = "The call gives \"name\" twice.";
    return;
  }
  if (name.empty()) return;
  scan.out.call().call.name = std::move(name);
  fields.has_name = true;
  announce_when_known(scan, fields);
}

Reading<JsonPart> read_call_arguments(TurnScan& scan, CallFields& fields, int first_byte) {
  if (fields.arguments++ > 0) {
    fields.conflict = "The call gives its arguments twice; give \"arguments\" once and no \"parameters\".";
    co_return co_await read_json_value(scan, false);
  }
  fields.arguments_begin = scan.in.at();
  if (first_byte == '{') {
    announce_when_known(scan, fields);
    co_return co_await read_json_value(scan, true);
  }
  JsonPart part = co_await read_json_value(scan, false);
  if (!part.ok) co_return part;
  if (first_byte == '"') {
    announce_when_known(scan, fields);
    std::string text = decoded_string(scan, part.begin, scan.in.at());
    text.erase(0, text.find_first_not_of(kTurnBlanks));
    JsonScan object = scan_json(text);
    bool decodes = text.starts_with('{') && object.status == JsonScan::Status::kComplete;
    scan.out.add_arguments(decodes ? std::string_view(text) : scan.in.between(part.begin, scan.in.at()));
  } else {
    scan.out.add_arguments(scan.in.between(part.begin, scan.in.at()));
  }
  co_return part;
}

Reading<JsonPart> read_call_members(TurnScan& scan, CallFields& fields, bool inner);

Reading<JsonPart> read_call_member(TurnScan& scan, CallFields& fields, const std::string& name, bool inner) {
  int byte = co_await scan.in.byte();
  if (name == "arguments" || name == "parameters") co_return co_await read_call_arguments(scan, fields, byte);
  if (name == "function" && byte == '{' && !inner) {
    scan.in.skip(1);
    co_return co_await read_call_members(scan, fields, true);
  }
  JsonPart part = co_await read_json_value(scan, false);
  if (part.ok && byte == '"') {
    if (name == "name" || (name == "function" && !inner && !fields.has_name)) {
      take_call_name(scan, fields, decoded_string(scan, part.begin, scan.in.at()));
    } else if (name == "id") {
      fields.id = decoded_string(scan, part.begin, scan.in.at());
    }
  }
  co_return part;
}

Reading<JsonPart> read_call_members(TurnScan& scan, CallFields& fields, bool inner) {
  for (bool first = true;; first = false) {
    JsonMember member = co_await next_member(scan, first);
    if (!member.part.ok || member.end) co_return member.part;
    JsonPart part = co_await read_call_member(scan, fields, member.name, inner);
    if (!part.ok) co_return part;
  }
}

void judge_call(TurnScan& scan, const CallFields& fields) {
  if (!fields.has_name) scan.out.call_problem(fields.begin, "The call has no \"name\" that is a string.");
  if (!fields.conflict.empty()) scan.out.call_problem(fields.begin, fields.conflict);
  if (fields.arguments == 0) {
    scan.out.call_problem(fields.begin, "The call has no \"arguments\"; give an object, {} for none.");
  }
  scan.out.call().call.id = fields.id;
}

}  // namespace

std::string decoded_string(const TurnScan& scan, size_t begin, size_t end) {
  Result<Json> text = Json::try_parse(scan.in.between(begin, end));
  return text && text->is_string() ? text->as_string() : "";
}

Reading<JsonPart> read_json_value(TurnScan& scan, bool arguments) {
  JsonMachine machine;
  size_t begin = scan.in.at();
  for (;;) {
    std::string_view rest = scan.in.rest();
    JsonMachine::Step step = JsonMachine::Step::kMore;
    size_t used = 0;
    while (used < rest.size()) {
      step = machine.push(rest[used]);
      if (step == JsonMachine::Step::kMore || step == JsonMachine::Step::kDone) ++used;
      if (step != JsonMachine::Step::kMore) break;
    }
    if (arguments) scan.out.add_arguments(rest.substr(0, used));
    scan.in.skip(used);
    if (step == JsonMachine::Step::kDone || step == JsonMachine::Step::kBefore) {
      co_return JsonPart{.begin = begin};
    }
    bool bad = step == JsonMachine::Step::kInvalid;
    if (bad || scan.in.ended()) {
      JsonPart part = bad ? invalid_part(scan, machine.reason()) : cut_off_part(scan);
      size_t string = machine.string_begin();
      if (string != JsonMachine::kNoString) part.recover_from = begin + string;
      co_return part;
    }
    co_await scan.in.more();
  }
}

Reading<JsonMember> next_member(TurnScan& scan, bool first) {
  JsonMember member = co_await next_part(scan, first, '}');
  if (!member.part.ok || member.end) co_return member;
  if (co_await scan.in.byte() != '"') {
    member.part = invalid_part(scan, "a member name in double quotes was expected");
    co_return member;
  }
  member.part = co_await read_json_value(scan, false);
  if (!member.part.ok) co_return member;
  member.name = decoded_string(scan, member.part.begin, scan.in.at());
  int byte = co_await skip_blanks(scan);
  if (byte == ':') {
    scan.in.skip(1);
    byte = co_await skip_blanks(scan);
    if (byte == TurnInput::kEnd) member.part = cut_off_part(scan);
    member.part.begin = scan.in.at();
  } else {
    member.part = byte == TurnInput::kEnd ? cut_off_part(scan) : invalid_part(scan, "a colon was expected");
  }
  co_return member;
}

Reading<JsonMember> next_element(TurnScan& scan, bool first) {
  co_return co_await next_part(scan, first, ']');
}

Reading<bool> tell_json_problem(TurnScan& scan, JsonPart part, size_t begin) {
  std::string before = co_await excerpt(scan, part.position);
  scan.out.call_problem(part.position,
                        fmt::format("The call is no valid JSON: {} at character {} of the call, before {}.",
                                    part.reason, part.position - begin + 1, before));
  co_return true;
}

Reading<CallObject> read_call_object(TurnScan& scan, bool certain) {
  CallFields fields{.begin = scan.in.at()};
  scan.in.skip(1);
  JsonPart part = co_await read_call_members(scan, fields, false);
  bool is_call = certain || scan.out.call_is_announced();
  if (!part.ok) {
    if (!is_call) co_return CallObject::kNotACall;
    co_await tell_json_problem(scan, part, fields.begin);
    scan.in.seek(part.recover_from);
    co_return CallObject::kBroken;
  }
  if (!is_call) co_return CallObject::kNotACall;
  judge_call(scan, fields);
  co_return CallObject::kRead;
}

Reading<bool> read_call_list(TurnScan& scan, bool certain) {
  size_t begin = scan.in.at() - 1;
  for (bool first = true;; first = false) {
    JsonMember element = co_await next_element(scan, first);
    if (element.end) co_return true;
    if (!element.part.ok && !certain) co_return false;
    size_t from = scan.in.at();
    scan.out.open_call();
    CallObject object = CallObject::kBroken;
    if (!element.part.ok) {
      co_await tell_json_problem(scan, element.part, begin);
    } else if (co_await scan.in.byte() == '{') {
      object = co_await read_call_object(scan, certain);
      if (object == CallObject::kNotACall) {
        scan.out.drop_call();
        co_return false;
      }
    } else if (certain) {
      std::string found = co_await excerpt(scan, from);
      scan.out.call_problem(from, fmt::format("A call must be a JSON object, found {}.", found));
    } else {
      scan.out.drop_call();
      co_return false;
    }
    scan.out.close_call(from, scan.in.between(from, scan.in.at()), from);
    if (object != CallObject::kRead) co_return false;
    certain = true;
  }
}

Reading<bool> read_arguments_object(TurnScan& scan) {
  size_t begin = scan.in.at();
  scan.out.announce_call();
  JsonPart part = co_await read_json_value(scan, true);
  if (part.ok) co_return true;
  co_await tell_json_problem(scan, part, begin);
  scan.in.seek(part.recover_from);
  co_return false;
}

}  // namespace stoker
