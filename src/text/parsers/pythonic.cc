#include "text/parsers/formats.h"
#include "text/parsers/json_call.h"
#include "text/parsers/python_call.h"

namespace stoker {
namespace {

constexpr std::string_view kPythonicTags[] = {"<|python_start|>", "<|python_end|>", "["};
constexpr std::string_view kPythonicStops[] = {"<|python_start|>", "<|python_end|>"};
constexpr int kPythonStart = 0;
constexpr int kPythonEnd = 1;

// At a '[' that may open a list of calls: reads the list, or takes the bracket as content.
Reading<bool> read_pythonic_list(TurnScan& scan, bool certain) {
  size_t begin = scan.in.at();
  scan.in.skip(1);
  bool is_list = certain || starts_line(scan, begin);
  if (is_list) {
    co_await skip_blanks(scan);
    is_list = co_await at_python_call(scan, scan.in.at());
  }
  if (!is_list) {
    scan.in.seek(begin + 1);
    scan.out.add_content("[");
    co_return true;
  }
  if (!co_await read_python_calls(scan, ']', kPythonicStops)) {
    scan.out.add_problem(scan.in.at(), "The list of calls does not end: ] is missing behind the last call.");
  }
  co_return true;
}

// Behind <|python_start|>: a list, calls without a list, or JSON calls.
Reading<bool> read_behind_python_start(TurnScan& scan) {
  int byte = co_await skip_blanks(scan);
  size_t begin = scan.in.at();
  if (byte == '[') co_return co_await read_pythonic_list(scan, true);
  if (byte != '{') co_return co_await read_python_calls(scan, 0, kPythonicStops);
  scan.out.open_call();
  if (co_await read_call_object(scan, true) == CallObject::kBroken) co_await skip_until(scan, kPythonicStops);
  scan.out.close_call(begin, scan.in.between(begin, scan.in.at()), begin);
  co_return true;
}

}  // namespace

Reading<bool> read_pythonic(TurnScan& scan) {
  for (;;) {
    int tag = co_await content_until(scan, kPythonicTags);
    if (tag < 0) co_return tag == kRestart;
    if (tag == kPythonStart) {
      scan.in.skip(kPythonicTags[kPythonStart].size());
      co_await read_behind_python_start(scan);
    } else if (tag == kPythonEnd) {
      scan.in.skip(kPythonicTags[kPythonEnd].size());
    } else {
      co_await read_pythonic_list(scan, false);
    }
  }
}

}  // namespace stoker
