#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/json_string.h"
#include "text/parsers/formats.h"
#include "text/parsers/growing_string.h"
#include "text/parsers/json_call.h"

namespace stoker {
namespace {

constexpr std::string_view kInvoke[] = {"<｜DSML｜invoke name=\""};
constexpr std::string_view kInInvoke[] = {"<｜DSML｜parameter name=\"", "</｜DSML｜invoke>"};
constexpr std::string_view kValueEnd[] = {"</｜DSML｜parameter>"};
constexpr std::string_view kBehindName[] = {"\"", "<", "\n"};
constexpr std::string_view kNameEnd[] = {">"};
// Whether the value is the text as it stands, or JSON; text where it is not said.
constexpr std::string_view kValueKinds[] = {" string=\"true\">", " string=\"false\">", ">"};
constexpr int kJsonValue = 1;
// Where reading goes on behind a broken call.
constexpr std::string_view kAfterBroken[] = {"</｜DSML｜invoke>", "<｜DSML｜invoke name=\"",
                                             "</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"};

Reading<bool> expected_in_markup(TurnScan& scan, std::string what) {
  size_t place = scan.in.at();
  std::string found = co_await excerpt(scan, place);
  scan.out.call_problem(place, fmt::format("{}, found {}.", what, found));
  co_return false;
}

// NAME" behind name=".
Reading<bool> take_markup_name(TurnScan& scan, std::string& name) {
  size_t begin = scan.in.at();
  int behind = co_await skip_until(scan, kBehindName);
  name = scan.in.between(begin, scan.in.at());
  if (behind != 0) co_return co_await expected_in_markup(scan, "A quote must follow the name");
  scan.in.skip(1);
  co_return true;
}

// Whether the closing tag at the place read up to ends the value: another tag of the call follows. The tag
// may also stand in a value.
Reading<bool> ends_markup_value(TurnScan& scan) {
  size_t place = scan.in.at();
  bool ends = co_await take_tag(scan, kValueEnd) >= 0;
  if (ends) {
    int byte = co_await skip_blanks(scan);
    ends = byte == TurnInput::kEnd || co_await take_tag(scan, kInInvoke) >= 0;
  }
  scan.in.seek(place);
  co_return ends;
}

// A value that is text, every byte of it, to behind its closing tag.
Reading<bool> read_text_value(TurnScan& scan) {
  GrowingString value(scan, scan.in.at(), GrowingString::LastNewline::kPart);
  for (;;) {
    std::string_view rest = scan.in.rest();
    scan.in.skip(std::min(rest.find('<'), rest.size()));
    value.grow(scan.in.at());
    if (scan.in.at() == scan.in.size()) {
      if (scan.in.ended())
        co_return co_await expected_in_markup(scan, "</｜DSML｜parameter> must follow the value");
      co_await scan.in.more();
      continue;
    }
    if (match_tag(scan.in, scan.in.at(), kValueEnd) != kNoTag && co_await ends_markup_value(scan)) break;
    scan.in.skip(1);
  }
  scan.in.skip(kValueEnd[0].size());
  value.finish();
  co_return true;
}

Reading<bool> read_json_parameter(TurnScan& scan) {
  co_await skip_blanks(scan);
  size_t begin = scan.in.at();
  JsonPart part = co_await read_json_value(scan, true);
  if (!part.ok) {
    co_await tell_json_problem(scan, part, begin);
    co_return false;
  }
  co_await skip_blanks(scan);
  if (co_await take_tag(scan, kValueEnd) >= 0) co_return true;
  co_return co_await expected_in_markup(scan, "</｜DSML｜parameter> must follow the value");
}

// From behind the opening tag's name=" to behind the call's closing tag.
Reading<bool> read_invoke(TurnScan& scan) {
  std::string name;
  bool named = co_await take_markup_name(scan, name);
  scan.out.call().call.name = name;
  if (!named) co_return false;
  if (co_await take_tag(scan, kNameEnd) < 0)
    co_return co_await expected_in_markup(scan, "> must follow the name");
  scan.out.announce_call();
  scan.out.add_arguments("{");
  for (bool first = true;; first = false) {
    int byte = co_await skip_blanks(scan);
    int tag = co_await take_tag(scan, kInInvoke);
    if (tag == 1) break;
    if (byte == TurnInput::kEnd)
      co_return co_await expected_in_markup(scan, "The call is cut off: </｜DSML｜invoke> is missing");
    if (tag < 0)
      co_return co_await expected_in_markup(scan, "<｜DSML｜parameter> or </｜DSML｜invoke> must follow");
    std::string parameter;
    if (!co_await take_markup_name(scan, parameter)) co_return false;
    int kind = co_await take_tag(scan, kValueKinds);
    if (kind < 0)
      co_return co_await expected_in_markup(scan, "string=\"true\"> or string=\"false\"> must follow");
    std::string key = first ? "" : ", ";
    append_json_string(key, parameter);
    scan.out.add_arguments(key + ": ");
    bool whole = kind == kJsonValue ? co_await read_json_parameter(scan) : co_await read_text_value(scan);
    if (!whole) co_return false;
  }
  scan.out.add_arguments("}");
  co_return true;
}

}  // namespace

Reading<bool> read_deepseek_markup_call(TurnScan& scan) {
  size_t tag = scan.in.at();
  scan.out.open_call();
  scan.in.skip(kInvoke[0].size());
  size_t begin = scan.in.at();
  bool whole = co_await read_invoke(scan);
  if (!whole && co_await skip_until(scan, kAfterBroken) == 0) scan.in.skip(kAfterBroken[0].size());
  scan.out.close_call(tag, scan.in.between(tag, scan.in.at()), begin);
  co_return true;
}

}  // namespace stoker
