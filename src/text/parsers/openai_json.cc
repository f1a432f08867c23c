#include "text/parsers/formats.h"
#include "text/parsers/json_call.h"

namespace stoker {
namespace {

// What stands beside the calls of a message.
struct MessageFields {
  std::string content;
  std::string reasoning;
};

Reading<bool> read_message_calls(TurnScan& scan, const std::string& name) {
  int byte = co_await scan.in.byte();
  if (name == "tool_calls" && byte == '[') {
    scan.in.skip(1);
    co_return co_await read_call_list(scan, true);
  }
  size_t begin = scan.in.at();
  if (name == "function_call" && byte == '{') {
    scan.out.open_call();
    bool whole = co_await read_call_object(scan, true) == CallObject::kRead;
    scan.out.close_call(begin, scan.in.between(begin, scan.in.at()), begin);
    co_return whole;
  }
  JsonPart part = co_await read_json_value(scan, false);  // null: no calls
  co_return part.ok;
}

// The members of an assistant's message; false when the object is broken.
Reading<bool> read_message(TurnScan& scan, MessageFields& fields) {
  scan.in.skip(1);
  for (bool first = true;; first = false) {
    JsonMember member = co_await next_member(scan, first);
    if (member.end) co_return true;
    if (!member.part.ok) co_return false;
    if (member.name == "tool_calls" || member.name == "function_call") {
      if (!co_await read_message_calls(scan, member.name)) co_return false;
      continue;
    }
    JsonPart part = co_await read_json_value(scan, false);
    if (!part.ok) co_return false;
    std::string text = decoded_string(scan, part.begin, scan.in.at());
    if (member.name == "content") fields.content = std::move(text);
    if (member.name == "reasoning_content" || member.name == "reasoning") fields.reasoning = std::move(text);
  }
}

// Whether the object at the place read up to is a message: one of its members up to the first that decides is
// "tool_calls" or "function_call". Consumes nothing for good.
Reading<bool> is_message(TurnScan& scan) {
  size_t begin = scan.in.at();
  bool message = false;
  scan.in.skip(1);
  for (bool first = true;; first = false) {
    JsonMember member = co_await next_member(scan, first);
    if (!member.part.ok || member.end) break;
    message = member.name == "tool_calls" || member.name == "function_call";
    if (message || member.name == "name" || member.name == "function" || member.name == "arguments") break;
    JsonPart part = co_await read_json_value(scan, false);
    if (!part.ok) break;
  }
  scan.in.seek(begin);
  co_return message;
}

// Reads the JSON at the front. True: it held calls; what is broken of it is skipped. False: it is no call;
// the place read up to is as far as it was looked at.
Reading<bool> read_front(TurnScan& scan, int byte) {
  bool whole = false;
  if (byte == '[') {
    scan.in.skip(1);
    whole = co_await read_call_list(scan, false);
    if (scan.out.turn().calls.empty()) co_return false;
  } else if (co_await is_message(scan)) {
    MessageFields fields;
    whole = co_await read_message(scan, fields);
    if (!whole) {
      std::string found = co_await excerpt(scan, scan.in.at());
      scan.out.add_problem(scan.in.at(), "The message is no valid JSON before " + found + ".");
    }
    scan.out.add_reasoning(fields.reasoning);
    scan.out.add_content(fields.content);
  } else {
    size_t begin = scan.in.at();
    scan.out.open_call();
    CallObject object = co_await read_call_object(scan, false);
    if (object == CallObject::kNotACall) {
      scan.out.drop_call();
      co_return false;
    }
    whole = object == CallObject::kRead;
    if (!whole) co_await skip_until(scan, {});
    scan.out.close_call(begin, scan.in.between(begin, scan.in.at()), begin);
  }
  if (!whole) co_await skip_until(scan, {});
  co_return true;
}

}  // namespace

Reading<bool> read_openai_json(TurnScan& scan) {
  int byte = co_await skip_blanks(scan);
  size_t begin = scan.in.at();
  if (byte == '[' || byte == '{') {
    if (!co_await read_front(scan, byte)) scan.out.add_content(scan.in.between(begin, scan.in.at()));
  }
  co_return co_await content_until(scan, {}) == kRestart;
}

}  // namespace stoker
