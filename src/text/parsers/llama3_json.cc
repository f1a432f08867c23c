#include <fmt/format.h>

#include "text/parsers/formats.h"
#include "text/parsers/json_call.h"
#include "text/parsers/python_call.h"

namespace stoker {
namespace {

constexpr std::string_view kPythonTag[] = {"<|python_tag|>"};

// A JSON object at the place read up to: a call, or content when nothing says it is one and no tag stands
// before it. Returns whether further calls may follow.
Reading<bool> read_llama_object(TurnScan& scan, size_t raw_begin, bool tagged) {
  size_t begin = scan.in.at();
  scan.out.open_call();
  CallObject object = co_await read_call_object(scan, tagged);
  if (object == CallObject::kNotACall) {
    scan.out.drop_call();
    scan.out.add_content(scan.in.between(begin, scan.in.at()));
    co_return false;
  }
  // Nothing in the rest of a broken call is a call (TCP-19).
  if (object == CallObject::kBroken) co_await skip_until(scan, kPythonTag);
  scan.out.close_call(raw_begin, scan.in.between(raw_begin, scan.in.at()), begin);
  co_return object == CallObject::kRead;
}

// Calls one behind the other: directly, or split by ';'. What else follows is content.
Reading<bool> read_llama_objects(TurnScan& scan, size_t raw_begin, bool tagged) {
  while (co_await read_llama_object(scan, raw_begin, tagged)) {
    size_t behind = scan.in.at();
    int byte = co_await skip_blanks(scan);
    if (byte == ';') {
      scan.in.skip(1);
      byte = co_await skip_blanks(scan);
    }
    if (byte != '{') {
      scan.in.seek(behind);
      break;
    }
    raw_begin = scan.in.at();
    tagged = false;
  }
  co_return true;
}

// Behind the tag: JSON calls, or a built-in tool's name.call(argument=value).
Reading<bool> read_behind_python_tag(TurnScan& scan) {
  size_t tag = scan.in.at();
  scan.in.skip(kPythonTag[0].size());
  int byte = co_await skip_blanks(scan);
  if (byte == '{') co_return co_await read_llama_objects(scan, tag, true);
  if (co_await at_python_call(scan, scan.in.at())) {
    co_return co_await read_python_call(scan, tag, kPythonTag, true);
  }
  std::string found = co_await excerpt(scan, scan.in.at());
  scan.out.add_problem(scan.in.at(),
                       fmt::format("A JSON object or a call must follow <|python_tag|>, found {}.", found));
  co_return true;
}

}  // namespace

Reading<bool> read_llama3_json(TurnScan& scan) {
  if (co_await skip_blanks(scan) == '{') co_await read_llama_objects(scan, scan.in.at(), false);
  for (;;) {
    int tag = co_await content_until(scan, kPythonTag);
    if (tag < 0) co_return tag == kRestart;
    co_await read_behind_python_tag(scan);
  }
}

}  // namespace stoker
