#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace stoker {

// A JSON value. Objects keep the order in which members were written; integers stay integers.
//
//   Json row = Json::parse(line);                       // throws Error(kInput)
//   std::string prompt = row.at("prompt").as_string();
//   Json out = Json::object({{"reward", 1.0}, {"turns", 2}});
//   std::string text = out.dump();
class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(int64_t{value}) {}
  Json(unsigned value) : value_(int64_t{value}) {}
  Json(long value) : value_(int64_t{value}) {}
  Json(long long value) : value_(int64_t{value}) {}
  Json(unsigned long value);
  Json(unsigned long long value);
  Json(float value) : value_(double{value}) {}
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value) : value_(std::move(value)) {}

  static Json array(Array elements = {}) { return Json(std::move(elements)); }
  static Json object(Object members = {});

  bool is_null() const { return value_.index() == 0; }
  bool is_bool() const { return value_.index() == 1; }
  bool is_integer() const { return value_.index() == 2 || value_.index() == 3; }
  bool is_double() const { return value_.index() == 4; }
  bool is_number() const { return is_integer() || is_double(); }
  bool is_string() const { return value_.index() == 5; }
  bool is_array() const { return value_.index() == 6; }
  bool is_object() const { return value_.index() == 7; }
  // "null", "boolean", "integer", "number", "string", "array", "object": JSON Schema's names.
  const char* type_name() const;

  // Each throws Error(kInput) "expected a string, found an array" when the type differs. Of a temporary, what
  // is asked for is moved out, so that a loop over it holds no reference into what has ended.
  bool as_bool() const;
  int64_t as_int() const;  // also a double with an integral value in range
  uint64_t as_uint() const;
  double as_double() const;  // any number
  const std::string& as_string() const&;
  std::string as_string() &&;
  const Array& as_array() const&;
  Array& as_array() &;
  Array as_array() &&;
  const Object& as_object() const&;
  Object& as_object() &;
  Object as_object() &&;

  // Member of an object by name: the last one where a name occurs twice. find: nullptr when absent or when
  // this is no object; at: throws Error(kInput) naming the member.
  const Json* find(std::string_view name) const&;
  const Json* find(std::string_view name) && = delete;
  const Json& at(std::string_view name) const&;
  Json at(std::string_view name) &&;
  // Sets or appends a member; this must be an object or null (which becomes an object).
  void set(std::string name, Json value);

  // Parses one JSON text (RFC 8259, UTF-8, at most `max_depth` levels). The failure's message gives line and
  // column.
  static Result<Json> try_parse(std::string_view text, int max_depth = 128);
  // Same, throws Error(kInput) with `what` (a file, a row) named in the sentence.
  static Json parse(std::string_view text, std::string_view what = "JSON text");

  // One line without blanks; doubles in the shortest form that reads back to the same bits, non-finite
  // numbers as null, bytes that are no UTF-8 as U+FFFD: always strict JSON.
  std::string dump() const;
  // Indented by two blanks.
  std::string dump_pretty() const;

  // Same type, same value; objects with the same members in the same order. 1 and 1.0 differ.
  bool operator==(const Json& other) const;

 private:
  struct ObjectValue {
    Object members;
    bool operator==(const ObjectValue& other) const;
  };
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, ObjectValue> value_;
};

}  // namespace stoker
