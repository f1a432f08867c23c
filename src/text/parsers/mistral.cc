#include <fmt/format.h>

#include "text/parsers/formats.h"
#include "text/parsers/json_call.h"

namespace stoker {
namespace {

constexpr std::string_view kMistralCalls[] = {"[TOOL_CALLS]"};
constexpr std::string_view kBehindMistralName[] = {"[ARGS]", "[CALL_ID]", "{", "[TOOL_CALLS]"};
constexpr std::string_view kBehindMistralId[] = {"[ARGS]", "{", "[TOOL_CALLS]"};

// name[ARGS]{...}, name[CALL_ID]id[ARGS]{...} or name{...}, behind the opening token. False: it is broken.
Reading<bool> read_mistral_named(TurnScan& scan) {
  size_t name_begin = scan.in.at();
  int behind = co_await skip_until(scan, kBehindMistralName);
  scan.out.call().call.name = trimmed(scan.in.between(name_begin, scan.in.at()));
  if (behind == 1) {
    scan.in.skip(kBehindMistralName[1].size());
    size_t id_begin = scan.in.at();
    int next = co_await skip_until(scan, kBehindMistralId);
    scan.out.call().call.id = trimmed(scan.in.between(id_begin, scan.in.at()));
    behind = next == 0 ? 0 : next == 1 ? 2 : next == 2 ? 3 : next;
  }
  if (behind == 0) scan.in.skip(kBehindMistralName[0].size());
  if (behind == 0 || behind == 2) {
    if (co_await skip_blanks(scan) == '{') co_return co_await read_arguments_object(scan);
  }
  size_t place = scan.in.at();
  std::string found = co_await excerpt(scan, place);
  scan.out.call_problem(
      place,
      fmt::format("A JSON object of arguments must follow the tool's name and [ARGS], found {}.", found));
  co_return false;
}

Reading<bool> read_mistral_calls(TurnScan& scan) {
  size_t tag = scan.in.at();
  scan.in.skip(kMistralCalls[0].size());
  int byte = co_await skip_blanks(scan);
  if (byte == '[') {
    scan.in.skip(1);
    co_return co_await read_call_list(scan, true);
  }
  size_t begin = scan.in.at();
  scan.out.open_call();
  bool whole = false;
  if (byte == '{') {
    whole = co_await read_call_object(scan, true) == CallObject::kRead;
  } else {
    whole = co_await read_mistral_named(scan);
  }
  if (!whole) co_await skip_until(scan, kMistralCalls);
  scan.out.close_call(tag, scan.in.between(tag, scan.in.at()), begin);
  co_return true;
}

}  // namespace

Reading<bool> read_mistral(TurnScan& scan) {
  for (;;) {
    int tag = co_await content_until(scan, kMistralCalls);
    if (tag < 0) co_return tag == kRestart;
    // What follows a broken list is no content: it is the rest of what was meant as calls.
    if (!co_await read_mistral_calls(scan)) co_await skip_until(scan, kMistralCalls);
  }
}

}  // namespace stoker
