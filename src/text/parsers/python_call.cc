#include "text/parsers/python_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/json.h"
#include "base/json_string.h"
#include "text/parsers/python_value.h"

namespace stoker {
namespace {

constexpr size_t kLongestName = 128;
constexpr size_t kLongestGap = 256;

bool is_name_byte(char c, bool first) {
  bool letter =
      (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
  return letter || (!first && ((c >= '0' && c <= '9') || c == '.' || c == '-'));
}

enum class Look { kYes, kNo, kMore };

// A cursor that looks ahead a bounded way without reading.
struct Ahead {
  std::string_view text;
  bool ended;
  size_t at = 0;

  bool skip_gap() {
    size_t from = at;
    while (at < text.size() && at - from <= kLongestGap &&
           is_turn_blank(static_cast<unsigned char>(text[at])))
      ++at;
    return at - from <= kLongestGap;
  }
  std::string_view name() {
    size_t from = at;
    while (at < text.size() && at - from <= kLongestName && is_name_byte(text[at], at == from)) ++at;
    return text.substr(from, at - from);
  }
  Look end(Look look) const { return at < text.size() ? look : ended ? look : Look::kMore; }
};

bool is_tool(const TurnScan& scan, std::string_view name) {
  return std::any_of(scan.options.tools.begin(), scan.options.tools.end(),
                     [&](const ToolSchema& tool) { return tool.name == name; });
}

// `listed`: calls stand around the place, so that a name and a bracket are enough.
Look look_at_call(const TurnScan& scan, size_t place, bool listed) {
  Ahead ahead{scan.in.text().substr(place), scan.in.ended()};
  std::string_view name = ahead.name();
  if (name.size() > kLongestName) return Look::kNo;
  if (ahead.at == ahead.text.size()) return ahead.end(Look::kNo);
  if (name.empty() || !ahead.skip_gap()) return Look::kNo;
  if (ahead.at == ahead.text.size()) return ahead.end(Look::kNo);
  if (ahead.text[ahead.at] != '(') return Look::kNo;
  ++ahead.at;
  if (listed || is_tool(scan, name)) return Look::kYes;
  if (!ahead.skip_gap()) return Look::kNo;
  if (ahead.at == ahead.text.size()) return ahead.end(Look::kYes);
  if (ahead.text[ahead.at] == ')') return Look::kYes;
  std::string_view argument = ahead.name();
  if (argument.size() > kLongestName) return Look::kNo;
  if (ahead.at == ahead.text.size()) return ahead.end(Look::kNo);
  if (argument.empty() || !ahead.skip_gap()) return Look::kNo;
  if (ahead.at + 1 >= ahead.text.size() && !ahead.ended) return Look::kMore;
  std::string_view rest = ahead.text.substr(ahead.at);
  return rest.starts_with('=') && !rest.starts_with("==") ? Look::kYes : Look::kNo;
}

// The bytes of a name at the place read up to; consumes them.
Reading<std::string> take_name_bytes(TurnScan& scan) {
  std::string name;
  for (;;) {
    int byte = co_await scan.in.byte();
    if (byte == TurnInput::kEnd || !is_name_byte(static_cast<char>(byte), name.empty())) co_return name;
    name.push_back(static_cast<char>(byte));
    scan.in.skip(1);
  }
}

Reading<bool> tell_python_problem(TurnScan& scan, size_t position, std::string reason) {
  std::string found = co_await excerpt(scan, position);
  scan.out.call_problem(position, fmt::format("The call cannot be read: {}, before {}.", reason, found));
  co_return false;
}

// One name=value. False: broken, told.
Reading<bool> read_python_argument(TurnScan& scan, PythonValueReader& value) {
  size_t place = scan.in.at();
  std::string name = co_await take_name_bytes(scan);
  int byte = co_await skip_blanks(scan);
  if (byte == TurnInput::kEnd)
    co_return co_await tell_python_problem(scan, scan.in.at(), "the text ends in the middle of a call");
  if (name.empty() || byte != '=') {
    scan.in.seek(place);
    co_return co_await tell_python_problem(scan, place, "each argument must be given as name=value");
  }
  scan.in.skip(1);
  std::string key;
  append_json_string(key, name);
  value.write(key + ": ");
  if (co_await value.read()) co_return true;
  co_return co_await tell_python_problem(scan, value.position(), value.problem());
}

// The arguments behind the opening bracket, to the closing one. False: broken, told.
Reading<bool> read_python_arguments(TurnScan& scan) {
  PythonValueReader value(scan);
  value.write("{");
  for (size_t count = 0;; ++count) {
    int byte = co_await skip_blanks(scan);
    if (byte == ')') break;
    if (count > 0) value.write(", ");
    if (!co_await read_python_argument(scan, value)) co_return false;
    byte = co_await skip_blanks(scan);
    if (byte == ')') break;
    if (byte != ',') {
      const char* reason = byte == TurnInput::kEnd ? "the text ends in the middle of a call"
                                                   : "a comma or a closing bracket was expected";
      co_return co_await tell_python_problem(scan, scan.in.at(), reason);
    }
    scan.in.skip(1);
  }
  scan.in.skip(1);
  value.write("}");
  co_return true;
}

// Goes behind the bracket that closes the broken call, counting brackets and minding strings from behind the
// opening one, but at least over the place of the problem; or to one of `stops` behind that.
Reading<bool> skip_broken(TurnScan& scan, size_t begin, std::span<const std::string_view> stops) {
  size_t problem = scan.in.at();
  scan.in.seek(begin);
  int depth = 1;
  char quote = 0;
  for (;;) {
    int byte = co_await scan.in.byte();
    if (byte == TurnInput::kEnd) co_return true;
    bool behind = scan.in.at() >= problem;
    int stop = behind ? match_tag(scan.in, scan.in.at(), stops) : kNoTag;
    if (stop >= 0) co_return true;
    if (stop == kPartialTag) {
      co_await scan.in.more();
      continue;
    }
    scan.in.skip(1);
    if (quote != 0) {
      if (byte == '\\' && co_await scan.in.byte() != TurnInput::kEnd) scan.in.skip(1);
      if (byte == quote || byte == '\n') quote = 0;
    } else if (byte == '"' || byte == '\'') {
      quote = static_cast<char>(byte);
    } else if (byte == '(' || byte == '[' || byte == '{') {
      ++depth;
    } else if ((byte == ')' || byte == ']' || byte == '}') && --depth <= 0 && behind) {
      co_return true;
    }
  }
}

}  // namespace

Reading<bool> at_python_call(TurnScan& scan, size_t place, bool listed) {
  for (;;) {
    Look look = look_at_call(scan, place, listed);
    if (look != Look::kMore) co_return look == Look::kYes;
    co_await scan.in.more();
  }
}

Reading<bool> read_python_call(TurnScan& scan, size_t raw_begin, std::span<const std::string_view> stops,
                               bool method) {
  scan.out.open_call();
  std::string name = co_await take_name_bytes(scan);
  if (method && name.ends_with(".call")) name.resize(name.size() - 5);
  scan.out.call().call.name = std::move(name);
  co_await skip_blanks(scan);
  scan.in.skip(1);
  size_t arguments_begin = scan.in.at();
  scan.out.announce_call();
  if (!co_await read_python_arguments(scan)) co_await skip_broken(scan, arguments_begin, stops);
  scan.out.close_call(raw_begin, scan.in.between(raw_begin, scan.in.at()), arguments_begin);
  co_return true;
}

Reading<bool> read_python_calls(TurnScan& scan, char closing, std::span<const std::string_view> stops) {
  bool listed = false;
  for (;;) {
    size_t behind = scan.in.at();
    int byte = co_await skip_blanks(scan);
    if (byte == ',' || byte == ';') {
      scan.in.skip(1);
      byte = co_await skip_blanks(scan);
    }
    if (closing != 0 && byte == closing) {
      scan.in.skip(1);
      co_return true;
    }
    if (byte == TurnInput::kEnd || !co_await at_python_call(scan, scan.in.at(), listed)) {
      scan.in.seek(behind);
      co_return closing == 0;
    }
    co_await read_python_call(scan, scan.in.at(), stops);
    listed = closing != 0;
  }
}

}  // namespace stoker
