#include "base/json.h"

#include <fmt/format.h>

#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/json_string.h"

namespace stoker {
namespace {

// What Boost.JSON's event parser calls; builds the value on a stack whose depth the parser bounds.
class Builder {
 public:
  static constexpr size_t max_object_size = std::numeric_limits<size_t>::max();
  static constexpr size_t max_array_size = std::numeric_limits<size_t>::max();
  static constexpr size_t max_key_size = std::numeric_limits<size_t>::max();
  static constexpr size_t max_string_size = std::numeric_limits<size_t>::max();

  using ErrorCode = boost::json::error_code;
  using View = boost::json::string_view;

  bool on_document_begin(ErrorCode&) { return true; }
  bool on_document_end(ErrorCode&) { return true; }
  bool on_array_begin(ErrorCode&) {
    open(Json::array());
    return true;
  }
  bool on_array_end(size_t, ErrorCode&) { return close(); }
  bool on_object_begin(ErrorCode&) {
    open(Json::object());
    return true;
  }
  bool on_object_end(size_t, ErrorCode&) { return close(); }
  bool on_string_part(View part, size_t, ErrorCode&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_string(View part, size_t, ErrorCode&) {
    text_.append(part.data(), part.size());
    put(Json(std::move(text_)));
    text_.clear();
    return true;
  }
  bool on_key_part(View part, size_t, ErrorCode&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_key(View part, size_t, ErrorCode&) {
    text_.append(part.data(), part.size());
    stack_.back().key = std::move(text_);
    text_.clear();
    return true;
  }
  bool on_number_part(View part, ErrorCode&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_int64(int64_t value, View part, ErrorCode& error) {
    // "-0" is a number whose sign an integer cannot hold.
    if (value == 0 && (part.starts_with('-') || text_.starts_with('-'))) return on_double(0.0, part, error);
    text_.clear();
    put(Json(static_cast<long long>(value)));
    return true;
  }
  bool on_uint64(uint64_t value, View, ErrorCode&) {
    text_.clear();
    put(Json(static_cast<unsigned long long>(value)));
    return true;
  }
  // The parser's own conversion may be off by a unit in the last place, so the digits are converted again.
  bool on_double(double, View part, ErrorCode& error) {
    text_.append(part.data(), part.size());
    double value = 0;
    if (std::from_chars(text_.data(), text_.data() + text_.size(), value).ec != std::errc()) {
      value = std::strtod(text_.c_str(), nullptr);  // tells overflow from underflow
    }
    text_.clear();
    if (!std::isfinite(value)) {
      error = boost::json::error::exponent_overflow;
      return false;
    }
    put(Json(value));
    return true;
  }
  bool on_bool(bool value, ErrorCode&) {
    put(Json(value));
    return true;
  }
  bool on_null(ErrorCode&) {
    put(Json());
    return true;
  }
  bool on_comment_part(View, ErrorCode&) { return true; }
  bool on_comment(View, ErrorCode&) { return true; }

  Json take() { return std::move(root_); }

 private:
  struct Frame {
    Json value;
    std::string key;  // of the member that comes next, in an object
  };

  void open(Json container) { stack_.push_back({std::move(container), {}}); }

  bool close() {
    Json value = std::move(stack_.back().value);
    stack_.pop_back();
    put(std::move(value));
    return true;
  }

  void put(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return;
    }
    Frame& top = stack_.back();
    if (top.value.is_array()) {
      top.value.as_array().push_back(std::move(value));
    } else {
      top.value.as_object().emplace_back(std::move(top.key), std::move(value));
    }
  }

  Json root_;
  std::vector<Frame> stack_;
  std::string text_;
};

// "line 3, column 7" of a byte offset; the column counts bytes from 1.
std::string place(std::string_view text, size_t offset) {
  size_t line = 1;
  size_t line_start = 0;
  for (size_t i = 0; i < offset && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++line;
      line_start = i + 1;
    }
  }
  return fmt::format("line {}, column {}", line, offset - line_start + 1);
}

Failure parse_failure(std::string_view text, size_t offset, const std::string& what) {
  return {FailureClass::kPolicy, "json", fmt::format("{} at {}", what, place(text, offset))};
}

std::string explain(const boost::json::error_code& error, std::string_view text, size_t offset) {
  using E = boost::json::error;
  if (error == E::incomplete) return "the text ends in the middle of a value";
  if (error == E::too_deep) return "the nesting is too deep";
  if (error == E::exponent_overflow) return "the number is out of range";
  if (error == E::illegal_leading_surrogate || error == E::illegal_trailing_surrogate ||
      error == E::expected_utf16_escape) {
    return "a \\u escape is half of a surrogate pair";
  }
  if (error == E::expected_hex_digit) return "a \\u escape needs four hexadecimal digits";
  if (offset < text.size() && text[offset] > 0x20 && text[offset] < 0x7F) {
    return fmt::format("this is not valid JSON: unexpected '{}'", text[offset]);
  }
  return "this is not valid JSON";
}

void append_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char buffer[32];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  std::string_view digits(buffer, end - buffer);
  out += digits;
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
}

// `indent` < 0: one line.
void append_json(std::string& out, const Json& value, int indent, int level) {
  auto new_line = [&](int depth) {
    if (indent < 0) return;
    out.push_back('\n');
    out.append(static_cast<size_t>(indent) * depth, ' ');
  };
  if (value.is_null()) {
    out += "null";
  } else if (value.is_bool()) {
    out += value.as_bool() ? "true" : "false";
  } else if (value.is_double()) {
    append_double(out, value.as_double());
  } else if (value.is_integer()) {
    out += value.as_double() > 0 ? std::to_string(value.as_uint()) : std::to_string(value.as_int());
  } else if (value.is_string()) {
    append_json_string(out, value.as_string());
  } else if (value.is_array()) {
    out.push_back('[');
    bool first = true;
    for (const Json& element : value.as_array()) {
      if (!first) out.push_back(',');
      first = false;
      new_line(level + 1);
      append_json(out, element, indent, level + 1);
    }
    if (!first) new_line(level);
    out.push_back(']');
  } else {
    out.push_back('{');
    bool first = true;
    for (const auto& [name, member] : value.as_object()) {
      if (!first) out.push_back(',');
      first = false;
      new_line(level + 1);
      append_json_string(out, name);
      out += indent < 0 ? ":" : ": ";
      append_json(out, member, indent, level + 1);
    }
    if (!first) new_line(level);
    out.push_back('}');
  }
}

Error wrong_type(const char* expected, const Json& found) {
  std::string_view name = found.type_name();
  bool vowel = name[0] == 'i' || name[0] == 'a' || name[0] == 'o';
  return input_error(
      fmt::format("expected {}, found {}{}", expected, name == "null" ? "" : (vowel ? "an " : "a "), name));
}

}  // namespace

Json::Json(unsigned long value) : Json(static_cast<unsigned long long>(value)) {}

Json::Json(unsigned long long value) {
  if (value <= static_cast<unsigned long long>(INT64_MAX)) {
    value_ = static_cast<int64_t>(value);
  } else {
    value_ = static_cast<uint64_t>(value);
  }
}

Json Json::object(Object members) {
  Json result;
  result.value_ = ObjectValue{std::move(members)};
  return result;
}

const char* Json::type_name() const {
  constexpr const char* kNames[] = {"null",   "boolean", "integer", "integer",
                                    "number", "string",  "array",   "object"};
  return kNames[value_.index()];
}

bool Json::ObjectValue::operator==(const ObjectValue& other) const { return members == other.members; }

bool Json::operator==(const Json& other) const { return value_ == other.value_; }

bool Json::as_bool() const {
  if (const bool* value = std::get_if<bool>(&value_)) return *value;
  throw wrong_type("a boolean", *this);
}

int64_t Json::as_int() const {
  if (const int64_t* value = std::get_if<int64_t>(&value_)) return *value;
  if (const double* value = std::get_if<double>(&value_)) {
    if (*value >= -0x1p63 && *value < 0x1p63 && std::trunc(*value) == *value) {
      return static_cast<int64_t>(*value);
    }
    throw input_error(fmt::format("expected an integer, found the number {}", *value));
  }
  if (const uint64_t* value = std::get_if<uint64_t>(&value_)) {
    throw input_error(fmt::format("expected an integer of 64 bits with sign, found {}", *value));
  }
  throw wrong_type("an integer", *this);
}

uint64_t Json::as_uint() const {
  if (const uint64_t* value = std::get_if<uint64_t>(&value_)) return *value;
  if (const double* value = std::get_if<double>(&value_)) {
    if (*value >= 0 && *value < 0x1p64 && std::trunc(*value) == *value) return static_cast<uint64_t>(*value);
    throw input_error(fmt::format("expected an integer of at least 0, found the number {}", *value));
  }
  int64_t value = as_int();
  if (value < 0) throw input_error(fmt::format("expected an integer of at least 0, found {}", value));
  return static_cast<uint64_t>(value);
}

double Json::as_double() const {
  if (const double* value = std::get_if<double>(&value_)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&value_)) return static_cast<double>(*value);
  if (const uint64_t* value = std::get_if<uint64_t>(&value_)) return static_cast<double>(*value);
  throw wrong_type("a number", *this);
}

const std::string& Json::as_string() const& {
  if (const std::string* value = std::get_if<std::string>(&value_)) return *value;
  throw wrong_type("a string", *this);
}

const Json::Array& Json::as_array() const& {
  if (const Array* value = std::get_if<Array>(&value_)) return *value;
  throw wrong_type("an array", *this);
}

std::string Json::as_string() && { return std::move(const_cast<std::string&>(as_string())); }

Json::Array& Json::as_array() & { return const_cast<Array&>(std::as_const(*this).as_array()); }

Json::Array Json::as_array() && { return std::move(as_array()); }

const Json::Object& Json::as_object() const& {
  if (const ObjectValue* value = std::get_if<ObjectValue>(&value_)) return value->members;
  throw wrong_type("an object", *this);
}

Json::Object& Json::as_object() & { return const_cast<Object&>(std::as_const(*this).as_object()); }

Json::Object Json::as_object() && { return std::move(as_object()); }

const Json* Json::find(std::string_view name) const& {
  const ObjectValue* object = std::get_if<ObjectValue>(&value_);
  if (object == nullptr) return nullptr;
  for (auto member = object->members.rbegin(); member != object->members.rend(); ++member) {
    if (member->first == name) return &member->second;
  }
  return nullptr;
}

Json Json::at(std::string_view name) && { return std::move(const_cast<Json&>(at(name))); }

const Json& Json::at(std::string_view name) const& {
  as_object();
  const Json* member = find(name);
  if (member == nullptr) throw input_error(fmt::format("the object has no member \"{}\"", name));
  return *member;
}

void Json::set(std::string name, Json value) {
  if (is_null()) value_ = ObjectValue{};
  Object& members = as_object();
  if (const Json* member = find(name)) {
    *const_cast<Json*>(member) = std::move(value);
  } else {
    members.emplace_back(std::move(name), std::move(value));
  }
}

Result<Json> Json::try_parse(std::string_view text, int max_depth) {
  boost::json::parse_options options;
  options.max_depth = static_cast<size_t>(max_depth);
  boost::json::basic_parser<Builder> parser(options);
  boost::json::error_code error;
  size_t used = parser.write_some(false, text.data(), text.size(), error);
  if (error) return parse_failure(text, used, explain(error, text, used));
  size_t rest = text.find_first_not_of(" \t\r\n", used);
  if (rest != std::string_view::npos) return parse_failure(text, rest, "more text follows the value");
  return parser.handler().take();
}

Json Json::parse(std::string_view text, std::string_view what) {
  Result<Json> result = try_parse(text);
  if (!result) throw input_error(fmt::format("{}: {}.", what, result.failure().message));
  return *std::move(result);
}

std::string Json::dump() const {
  std::string out;
  append_json(out, *this, -1, 0);
  return out;
}

std::string Json::dump_pretty() const {
  std::string out;
  append_json(out, *this, 2, 0);
  return out;
}

}  // namespace stoker
