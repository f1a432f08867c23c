#include <fmt/format.h>

#include "text/parsers/formats.h"
#include "text/parsers/json_call.h"

namespace stoker {
namespace {

constexpr std::string_view kHermesTags[] = {"<tool_call>", "</tool_call>"};
constexpr int kHermesOpen = 0;
constexpr int kHermesClose = 1;

// Behind the JSON object. True: the call is closed.
Reading<bool> expect_hermes_close(TurnScan& scan) {
  int byte = co_await skip_blanks(scan);
  size_t place = scan.in.at();
  if (co_await take_tag(scan, std::span(kHermesTags).subspan(kHermesClose)) >= 0) co_return true;
  if (byte == TurnInput::kEnd) {
    scan.out.call_problem(place, "The call is cut off: </tool_call> is missing after the JSON object.");
  } else {
    std::string found = co_await excerpt(scan, place);
    scan.out.call_problem(place, fmt::format("</tool_call> must follow the JSON object, found {}.", found));
  }
  co_return false;
}

Reading<bool> read_hermes_object(TurnScan& scan) {
  size_t place = scan.in.at();
  int byte = co_await scan.in.byte();
  if (byte == '{') {
    if (co_await read_call_object(scan, true) == CallObject::kBroken) co_return false;
    co_return co_await expect_hermes_close(scan);
  }
  if (byte == TurnInput::kEnd) {
    scan.out.call_problem(place, "The call is cut off after <tool_call>.");
  } else {
    std::string found = co_await excerpt(scan, place);
    scan.out.call_problem(place, fmt::format("A JSON object must follow <tool_call>, found {}.", found));
  }
  co_return false;
}

Reading<bool> read_hermes_call(TurnScan& scan) {
  size_t tag = scan.in.at();
  scan.out.open_call();
  scan.in.skip(kHermesTags[kHermesOpen].size());
  co_await skip_blanks(scan);
  size_t begin = scan.in.at();
  if (!co_await read_hermes_object(scan)) {
    // A broken call ends with its closing tag, or where the next one opens.
    if (co_await skip_until(scan, kHermesTags) == kHermesClose)
      scan.in.skip(kHermesTags[kHermesClose].size());
  }
  scan.out.close_call(tag, scan.in.between(tag, scan.in.at()), begin);
  co_return true;
}

}  // namespace

Reading<bool> read_hermes(TurnScan& scan) {
  for (;;) {
    int tag = co_await content_until(scan, kHermesTags);
    if (tag < 0) co_return tag == kRestart;
    if (tag == kHermesOpen) {
      co_await read_hermes_call(scan);
      continue;
    }
    scan.out.add_problem(scan.in.at(), "</tool_call> stands without <tool_call>.");
    scan.out.add_content(kHermesTags[kHermesClose]);
    scan.in.skip(kHermesTags[kHermesClose].size());
  }
}

}  // namespace stoker
