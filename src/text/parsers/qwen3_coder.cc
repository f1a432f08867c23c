#include <fmt/format.h>

#include <algorithm>

#include "base/json_string.h"
#include "text/json_text.h"
#include "text/parsers/formats.h"
#include "text/parsers/growing_string.h"
#include "text/parsers/json_call.h"
#include "text/parsers/parameter_type.h"

namespace stoker {
namespace {

constexpr std::string_view kQwenTags[] = {"<tool_call>", "<function=", "</tool_call>"};
constexpr int kQwenOpen = 0;
constexpr int kQwenFunction = 1;
constexpr int kQwenClose = 2;
constexpr std::string_view kInQwenFunction[] = {"<parameter=", "</function>"};
constexpr std::string_view kBehindQwenName[] = {">", "<", "\n"};
constexpr std::string_view kQwenValueEnd[] = {"</parameter>"};
constexpr std::string_view kQwenCallEnd[] = {"</tool_call>"};

Reading<bool> expected_in_qwen(TurnScan& scan, std::string what) {
  size_t place = scan.in.at();
  std::string found = co_await excerpt(scan, place);
  scan.out.call_problem(place, fmt::format("{}, found {}.", what, found));
  co_return false;
}

// NAME> behind <function= or <parameter=.
Reading<bool> take_qwen_name(TurnScan& scan, std::string& name) {
  size_t begin = scan.in.at();
  int behind = co_await skip_until(scan, kBehindQwenName);
  name = scan.in.between(begin, scan.in.at());
  if (behind != 0) co_return co_await expected_in_qwen(scan, "> must follow the name");
  scan.in.skip(1);
  co_return true;
}

// Whether the tag </parameter> at the place read up to ends the value: another tag of the call follows. The
// tag may also stand in a value.
Reading<bool> ends_qwen_value(TurnScan& scan) {
  size_t place = scan.in.at();
  bool ends = co_await take_tag(scan, kQwenValueEnd) >= 0;
  if (ends) {
    int byte = co_await skip_blanks(scan);
    ends = byte == TurnInput::kEnd || co_await take_tag(scan, kInQwenFunction) >= 0;
  }
  scan.in.seek(place);
  co_return ends;
}

// A parameter's value behind its opening tag, to behind its closing one. Exactly one newline at its start and
// one at its end belong to the tags (TCP-17).
Reading<bool> read_qwen_value(TurnScan& scan, const ParameterType& type) {
  if (co_await scan.in.byte() == '\n') scan.in.skip(1);
  size_t begin = scan.in.at();
  std::optional<GrowingString> growing;
  if (type.is_text()) growing.emplace(scan, begin, GrowingString::LastNewline::kKeptBack);
  for (;;) {
    std::string_view rest = scan.in.rest();
    scan.in.skip(std::min(rest.find('<'), rest.size()));
    if (growing) growing->grow(scan.in.at());
    if (scan.in.at() == scan.in.size()) {
      if (scan.in.ended()) co_return co_await expected_in_qwen(scan, "</parameter> must follow the value");
      co_await scan.in.more();
      continue;
    }
    if (match_tag(scan.in, scan.in.at(), kQwenValueEnd) != kNoTag && co_await ends_qwen_value(scan)) break;
    scan.in.skip(1);
  }
  size_t end = scan.in.at();
  scan.in.skip(kQwenValueEnd[0].size());
  if (growing) {
    growing->finish();
  } else {
    if (end > begin && scan.in.text()[end - 1] == '\n') --end;
    scan.out.add_arguments(type.to_json(scan.in.between(begin, end)));
  }
  co_return true;
}

// From behind <function= to behind </function>.
Reading<bool> read_qwen_function(TurnScan& scan) {
  std::string name;
  bool named = co_await take_qwen_name(scan, name);
  scan.out.call().call.name = name;
  if (!named) co_return false;
  scan.out.announce_call();
  scan.out.add_arguments("{");
  for (bool first = true;; first = false) {
    int byte = co_await skip_blanks(scan);
    int tag = co_await take_tag(scan, kInQwenFunction);
    if (tag == 1) break;
    if (byte == TurnInput::kEnd)
      co_return co_await expected_in_qwen(scan, "The call is cut off: </function> is missing");
    if (tag < 0) co_return co_await expected_in_qwen(scan, "<parameter=NAME> or </function> must follow");
    std::string parameter;
    if (!co_await take_qwen_name(scan, parameter)) co_return false;
    std::string key = first ? "" : ", ";
    append_json_string(key, parameter);
    scan.out.add_arguments(key + ": ");
    if (!co_await read_qwen_value(scan, parameter_type(scan.options.tools, name, parameter))) co_return false;
  }
  scan.out.add_arguments("}");
  co_return true;
}

// Behind <tool_call>: a function in tags, or JSON as the sibling models write it; then the closing tag.
Reading<bool> read_qwen_tagged(TurnScan& scan) {
  constexpr std::string_view kFunction[] = {kQwenTags[kQwenFunction]};
  int byte = co_await skip_blanks(scan);
  if (byte == '{') {
    if (co_await read_call_object(scan, true) == CallObject::kBroken) co_return false;
  } else if (co_await take_tag(scan, kFunction) < 0) {
    co_return co_await expected_in_qwen(scan, "<function=NAME> must follow <tool_call>");
  } else if (!co_await read_qwen_function(scan)) {
    co_return false;
  }
  co_await skip_blanks(scan);
  if (co_await take_tag(scan, kQwenCallEnd) >= 0) co_return true;
  co_return co_await expected_in_qwen(scan, "</tool_call> must follow the call");
}

Reading<bool> read_qwen_call(TurnScan& scan, int tag) {
  size_t begin = scan.in.at();
  scan.out.open_call();
  scan.in.skip(kQwenTags[tag].size());
  size_t body = scan.in.at();
  bool whole = tag == kQwenOpen ? co_await read_qwen_tagged(scan) : co_await read_qwen_function(scan);
  if (!whole && co_await skip_until(scan, kQwenTags) == kQwenClose)
    scan.in.skip(kQwenTags[kQwenClose].size());
  scan.out.close_call(begin, scan.in.between(begin, scan.in.at()), body);
  co_return tag == kQwenFunction;
}

}  // namespace

Reading<bool> read_qwen3_coder(TurnScan& scan) {
  bool close_may_follow = false;  // of a call whose opening tag the model left out
  for (;;) {
    int tag = co_await content_until(scan, kQwenTags);
    if (tag < 0) co_return tag == kRestart;
    if (tag != kQwenClose) {
      close_may_follow = co_await read_qwen_call(scan, tag);
      continue;
    }
    if (!close_may_follow) {
      scan.out.add_problem(scan.in.at(), "</tool_call> stands without <tool_call>.");
      scan.out.add_content(kQwenTags[kQwenClose]);
    }
    close_may_follow = false;
    scan.in.skip(kQwenTags[kQwenClose].size());
  }
}

}  // namespace stoker
