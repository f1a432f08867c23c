#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/json.h"

namespace stoker {

// Strict reading of one JSON object: no unknown member, none twice, each of its type and range. Every failure
// is an Error(kInput) that names the place, as in `trajectory.spans[3].turn: expected an integer of 0 to
// 2147483647, found -1.` The JSON value must outlive the reader.
class RecordReader {
 public:
  RecordReader(const Json& json, std::string place, std::initializer_list<std::string_view> members);

  const Json& required(std::string_view name) const;
  const Json* optional(std::string_view name) const { return json_.find(name); }  // nullptr when absent

  int64_t integer(std::string_view name, int64_t lowest, int64_t highest) const;
  int64_t integer_or(std::string_view name, int64_t fallback) const;  // any 64-bit value
  bool boolean_or(std::string_view name, bool fallback) const;
  const std::string& text(std::string_view name) const;
  double number(std::string_view name) const;
  const Json::Array& array(std::string_view name) const;

  std::string place_of(std::string_view name) const;  // "trajectory.spans[3].turn"
  [[noreturn]] void fail(std::string_view name, const std::string& problem) const;

 private:
  const Json& json_;
  std::string place_;
};

// One integer within a range; `place` names it in the Error(kInput).
int64_t read_integer(const Json& json, const std::string& place, int64_t lowest, int64_t highest);

}  // namespace stoker
