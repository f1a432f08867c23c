#include <fmt/format.h>

#include <array>

#include "text/parsers/formats.h"
#include "text/parsers/json_call.h"

namespace stoker {
namespace {

constexpr std::string_view kDeepseekTags[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
                                              "<｜tool▁calls▁end｜>", "<｜tool▁call▁end｜>"};
constexpr int kCallBegin = 1;
constexpr int kCallEnd = 3;
// Those of the calls' tokens and of V3.2's markup.
constexpr std::string_view kInBody[] = {kDeepseekTags[0],
                                        kDeepseekTags[1],
                                        kDeepseekTags[2],
                                        kDeepseekTags[3],
                                        "<｜DSML｜invoke name=\"",
                                        "<｜DSML｜function_calls>",
                                        "</｜DSML｜function_calls>",
                                        "<｜DSML｜tool_calls>",
                                        "</｜DSML｜tool_calls>"};
constexpr int kMarkupCall = 4;
constexpr std::string_view kDeepseekSeparator = "<｜tool▁sep｜>";
constexpr std::string_view kInDeepseekCall[] = {kDeepseekSeparator, kDeepseekTags[0], kDeepseekTags[1],
                                                kDeepseekTags[2], kDeepseekTags[3]};
constexpr std::string_view kCallEndTag[] = {kDeepseekTags[kCallEnd]};
constexpr std::string_view kArgumentsOpen[] = {"```json", "```"};
constexpr std::string_view kArgumentsClose[] = {"```"};

Reading<bool> expected_in_deepseek(TurnScan& scan, const char* what) {
  size_t place = scan.in.at();
  std::string found = co_await excerpt(scan, place);
  scan.out.call_problem(place, fmt::format("{}, found {}.", what, found));
  co_return false;
}

// V3 and R1 behind the separator: the name on its line, then the arguments in a fence.
Reading<bool> read_fenced_call(TurnScan& scan) {
  constexpr std::array<std::string_view, 6> kBehindName = {
      "\n", "```", kDeepseekTags[0], kDeepseekTags[1], kDeepseekTags[2], kDeepseekTags[3]};
  size_t begin = scan.in.at();
  co_await skip_until(scan, kBehindName);
  scan.out.call().call.name = trimmed(scan.in.between(begin, scan.in.at()));
  co_await skip_blanks(scan);
  if (co_await take_tag(scan, kArgumentsOpen) < 0 || co_await skip_blanks(scan) != '{') {
    co_return co_await expected_in_deepseek(
        scan, "A ```json fence with an object of arguments must follow the tool's name");
  }
  if (!co_await read_arguments_object(scan)) co_return false;
  co_await skip_blanks(scan);
  if (co_await take_tag(scan, kArgumentsClose) >= 0) co_return true;
  co_return co_await expected_in_deepseek(scan, "``` must follow the arguments");
}

// From behind the call's opening token to in front of its closing one.
Reading<bool> read_deepseek_inner(TurnScan& scan) {
  size_t begin = scan.in.at();
  if (co_await skip_until(scan, kInDeepseekCall) != 0) {
    scan.out.call().call.name = trimmed(scan.in.between(begin, scan.in.at())).substr(0, 64);
    co_return co_await expected_in_deepseek(scan, "<｜tool▁sep｜> must follow the tool's name");
  }
  std::string_view front = trimmed(scan.in.between(begin, scan.in.at()));
  bool is_type = front == "function";
  scan.out.call().call.name = front;
  scan.in.skip(kDeepseekSeparator.size());
  int byte = co_await skip_blanks(scan);
  if (byte == '{') co_return co_await read_arguments_object(scan);
  if (is_type) co_return co_await read_fenced_call(scan);
  co_return co_await expected_in_deepseek(scan, "A JSON object of arguments must follow <｜tool▁sep｜>");
}

Reading<bool> read_deepseek_call(TurnScan& scan) {
  size_t tag = scan.in.at();
  scan.out.open_call();
  scan.in.skip(kDeepseekTags[kCallBegin].size());
  size_t begin = scan.in.at();
  bool whole = co_await read_deepseek_inner(scan);
  if (whole) {
    co_await skip_blanks(scan);
    whole = co_await take_tag(scan, kCallEndTag) >= 0;
    if (!whole) co_await expected_in_deepseek(scan, "<｜tool▁call▁end｜> must follow the arguments");
  }
  if (!whole && co_await skip_until(scan, kDeepseekTags) == kCallEnd)
    scan.in.skip(kDeepseekTags[kCallEnd].size());
  scan.out.close_call(tag, scan.in.between(tag, scan.in.at()), begin);
  co_return true;
}

}  // namespace

Reading<bool> read_deepseek(TurnScan& scan) {
  for (;;) {
    int tag = co_await content_until(scan, kInBody);
    if (tag < 0) co_return tag == kRestart;
    if (tag == kMarkupCall) {
      co_await read_deepseek_markup_call(scan);
      continue;
    }
    if (tag == kCallBegin) {
      co_await read_deepseek_call(scan);
      continue;
    }
    if (tag == kCallEnd) {
      scan.out.add_problem(scan.in.at(), "<｜tool▁call▁end｜> stands without <｜tool▁call▁begin｜>.");
    }
    scan.in.skip(kInBody[tag].size());
  }
}

}  // namespace stoker
