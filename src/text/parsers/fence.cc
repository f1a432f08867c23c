#include "text/parsers/fence.h"

#include <algorithm>

#include "text/parsers/json_call.h"
#include "text/parsers/python_call.h"

namespace stoker {
namespace {

constexpr size_t kLongestLabel = 24;
constexpr std::string_view kLabels[] = {"",           "json",      "JSON",          "tool_call",
                                        "tool_calls", "tool_code", "function_call", "function_calls",
                                        "tool",       "python"};

// The word behind the backticks; consumes the line if it is one under which calls are looked for.
Reading<bool> take_label(TurnScan& scan) {
  std::string label;
  for (;;) {
    int byte = co_await scan.in.byte();
    if (byte == TurnInput::kEnd || label.size() > kLongestLabel) co_return false;
    scan.in.skip(1);
    if (byte == '\n') break;
    if (!is_turn_blank(byte)) label.push_back(static_cast<char>(byte));
    if (byte == '{' || byte == '[') co_return false;
  }
  co_return std::find(std::begin(kLabels), std::end(kLabels), label) != std::end(kLabels);
}

// One JSON call. Returns whether it was one and was whole; `found`: whether it was one.
Reading<bool> read_fenced_object(TurnScan& scan, bool& found) {
  size_t begin = scan.in.at();
  scan.out.open_call();
  CallObject object = co_await read_call_object(scan, false);
  if (object == CallObject::kNotACall) {
    scan.out.drop_call();
    co_return false;
  }
  found = true;
  scan.out.close_call(begin, scan.in.between(begin, scan.in.at()), begin);
  co_return object == CallObject::kRead;
}

Reading<bool> read_fenced_json_calls(TurnScan& scan, int byte, bool& found) {
  if (byte == '[') {
    size_t before = scan.out.turn().calls.size();
    scan.in.skip(1);
    bool whole = co_await read_call_list(scan, false);
    found = scan.out.turn().calls.size() > before;
    co_return whole;
  }
  while (co_await read_fenced_object(scan, found)) {
    size_t behind = scan.in.at();
    int next = co_await skip_blanks(scan);
    if (next == ',' || next == ';') {
      scan.in.skip(1);
      next = co_await skip_blanks(scan);
    }
    if (next != '{') {
      scan.in.seek(behind);
      co_return true;
    }
  }
  co_return false;
}

Reading<bool> read_fenced_python(TurnScan& scan, int byte, bool& found) {
  size_t begin = scan.in.at();
  const std::string_view print[] = {"print("};
  char closing = 0;
  if (byte == '[') {
    scan.in.skip(1);
    co_await skip_blanks(scan);
    closing = ']';
  } else if (co_await take_tag(scan, print) >= 0) {
    co_await skip_blanks(scan);
    closing = ')';
  }
  found = co_await at_python_call(scan, scan.in.at());
  if (!found) scan.in.seek(begin);
  co_return found&& co_await read_python_calls(scan, closing, kFence);
}

}  // namespace

Reading<int> read_fence(TurnScan& scan, bool python) {
  size_t begin = scan.in.at();
  bool may_be = starts_line(scan, begin);
  scan.in.skip(kFence[0].size());
  bool found = false;
  bool whole = false;
  if (may_be && co_await take_label(scan)) {
    int byte = co_await skip_blanks(scan);
    if (python && byte != '{') whole = co_await read_fenced_python(scan, byte, found);
    if (!found && (byte == '{' || byte == '[')) whole = co_await read_fenced_json_calls(scan, byte, found);
  }
  if (!found) {
    scan.out.add_content(scan.in.between(begin, scan.in.at()));
    if (!may_be) co_return 0;
    int end = co_await content_until(scan, kFence);
    if (end >= 0) {
      scan.out.add_content(kFence[0]);
      scan.in.skip(kFence[0].size());
    }
    co_return end == kRestart ? kRestart : 0;
  }
  co_await skip_blanks(scan);
  if (co_await take_tag(scan, kFence) >= 0) co_return 0;
  if (whole) {
    std::string found_there = co_await excerpt(scan, scan.in.at());
    scan.out.add_problem(scan.in.at(), "``` must follow the calls in a fence, found " + found_there + ".");
  }
  if (co_await skip_until(scan, kFence) >= 0) scan.in.skip(kFence[0].size());
  co_return 0;
}

}  // namespace stoker
