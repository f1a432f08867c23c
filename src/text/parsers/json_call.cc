#include "text/parsers/json_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
class NextPart final : public Scanner<JsonMember> {
 public:
  NextPart(TurnScan& scan, bool first, char bracket)
      : Scanner(scan.in), scan_(scan), comma_due_(!first), bracket_(bracket) {}

  bool advance() override {
    SkipBlanks blanks(scan_);
    if (!blanks.advance()) return false;
    const int byte = blanks.await_resume();
    if (byte == bracket_ && !behind_comma_) {
      in_.skip(1);
      result_.end = true;
    } else if (byte != TurnInput::kEnd && comma_due_ && byte != ',') {
      result_.part = invalid_part(scan_, "a comma or a closing bracket was expected");
    } else if (byte != TurnInput::kEnd && comma_due_) {
      in_.skip(1);
      comma_due_ = false;
      behind_comma_ = true;
      return advance();
    } else {
      if (byte == TurnInput::kEnd) result_.part = cut_off_part(scan_);
      result_.part.begin = in_.at();
    }
    return true;
  }

 private:
  TurnScan& scan_;
  bool comma_due_;
  bool behind_comma_ = false;
  char bracket_;
};

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
  const std::string_view written = scan.in.between(begin, end);
  if (written.size() >= 2 && written.front() == '"') {
    const std::string_view inside = written.substr(1, written.size() - 2);
    const bool plain = std::all_of(inside.begin(), inside.end(),
                                   [](char c) { return c >= ' ' && c <= '~' && c != '\\' && c != '"'; });
    if (plain && written.back() == '"') return std::string(inside);
  }
  Result<Json> text = Json::try_parse(written);
  return text && text->is_string() ? text->as_string() : "";
}

bool JsonValueScanner::advance() {
  const std::string_view rest = in_.rest();
  const JsonMachine::Progress progress = machine_.push(rest);
  if (arguments_) scan_.out.add_arguments(rest.substr(0, progress.used));
  in_.skip(progress.used);
  if (progress.step == JsonMachine::Step::kDone || progress.step == JsonMachine::Step::kBefore) {
    result_.begin = begin_;
    return true;
  }
  const bool bad = progress.step == JsonMachine::Step::kInvalid;
  if (!bad && !in_.ended()) return false;
  result_ = bad ? invalid_part(scan_, machine_.reason()) : cut_off_part(scan_);
  const size_t string = machine_.string_begin();
  if (string != JsonMachine::kNoString) result_.recover_from = begin_ + string;
  return true;
}

Reading<JsonMember> next_member(TurnScan& scan, bool first) {
  JsonMember member = co_await NextPart(scan, first, '}');
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
  co_return co_await NextPart(scan, first, ']');
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
