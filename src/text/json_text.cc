#include "text/json_text.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "base/json_string.h"
#include "text/json_machine.h"

namespace stoker {
namespace {

// Python's repr of a float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
void append_float(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    return;
  }
  char buffer[64] = {};  // atoi below reads up to the zero
  char* end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  std::string_view scientific(buffer, end - buffer);
  int exponent = std::atoi(scientific.data() + scientific.find('e') + 1);
  if (exponent < -4 || exponent >= 16) {
    out += scientific;
    return;
  }
  char fixed[64];
  end = std::to_chars(fixed, fixed + sizeof(fixed), value, std::chars_format::fixed).ptr;
  std::string_view text(fixed, end - fixed);
  out += text;
  if (text.find('.') == std::string_view::npos) out += ".0";
}

void append_value(std::string& out, const Json& value) {
  if (value.is_string()) {
    append_json_string(out, value.as_string(), InvalidUtf8::kKeep);
  } else if (value.is_double()) {
    append_float(out, value.as_double());
  } else if (value.is_array()) {
    out.push_back('[');
    std::string_view separator = "";
    for (const Json& element : value.as_array()) {
      out += separator;
      append_value(out, element);
      separator = ", ";
    }
    out.push_back(']');
  } else if (value.is_object()) {
    out.push_back('{');
    std::string_view separator = "";
    for (const auto& [name, member] : value.as_object()) {
      out += separator;
      append_json_string(out, name, InvalidUtf8::kKeep);
      out += ": ";
      append_value(out, member);
      separator = ", ";
    }
    out.push_back('}');
  } else {
    out += value.dump();
  }
}

}  // namespace

std::string python_json(const Json& value) {
  std::string out;
  append_value(out, value);
  return out;
}

JsonScan scan_json(std::string_view text) {
  JsonMachine machine;
  const JsonMachine::Progress progress = machine.push(text);
  switch (progress.step) {
    case JsonMachine::Step::kDone:
    case JsonMachine::Step::kBefore:
      return {JsonScan::Status::kComplete, progress.used, ""};
    case JsonMachine::Step::kInvalid:
      return {JsonScan::Status::kInvalid, progress.used, machine.reason()};
    case JsonMachine::Step::kMore:
      break;
  }
  return {JsonScan::Status::kIncomplete, text.size(), "the text ends in the middle of a value"};
}

std::string one_line_json(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') in_string = !in_string;
    if (!in_string && (c == ' ' || c == '\t' || c == '\n' || c == '\r')) continue;
    out.push_back(c);
    if (!in_string && (c == ',' || c == ':')) out.push_back(' ');
    if (in_string && c == '\\' && i + 1 < text.size()) out.push_back(text[++i]);
  }
  return out;
}

namespace {

// Objects of up to this many members are searched from their start: quicker than a table.
constexpr size_t kFewMembers = 16;

// The first of `members` up to `end` with the name of the one at `end`; `end` itself when there is none.
size_t first_of_name(const Json::Object& members, size_t end) {
  for (size_t i = 0; i < end; ++i) {
    if (members[i].first == members[end].first) return i;
  }
  return end;
}

void remove_duplicates(Json& value);

void remove_duplicates(Json::Object& members) {
  std::unordered_map<std::string, size_t> places;
  size_t kept = 0;  // the members before it are those that stay
  for (size_t i = 0; i < members.size(); ++i) {
    remove_duplicates(members[i].second);
    if (i != kept) members[kept] = std::move(members[i]);
    const size_t place = members.size() <= kFewMembers
                             ? first_of_name(members, kept)
                             : places.emplace(members[kept].first, kept).first->second;
    if (place == kept) {
      ++kept;
    } else {
      members[place].second = std::move(members[kept].second);
    }
  }
  members.resize(kept);
}

void remove_duplicates(Json& value) {
  if (value.is_object()) {
    remove_duplicates(value.as_object());
  } else if (value.is_array()) {
    for (Json& element : value.as_array()) remove_duplicates(element);
  }
}

}  // namespace

Json without_duplicates(Json value) {
  remove_duplicates(value);
  return value;
}

}  // namespace stoker
