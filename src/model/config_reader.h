#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/json.h"

namespace stoker {

// Reads the keys of one config.json; every complaint names the file and the key.
class ModelConfigReader {
 public:
  ModelConfigReader(const Json& json, const std::string& what) : json_(json), what_(what) {
    if (!json.is_object())
      throw input_error(fmt::format("{} is {}, not a JSON object.", what, json.type_name()));
  }

  // A key that is absent or null counts as not given.
  const Json* find(const char* key) const {
    const Json* value = json_.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  Error bad(const char* key, const std::string& sentence) const {
    return input_error(fmt::format("{}: key '{}' {}", what_, key, sentence));
  }

  int32_t integer(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) throw bad(key, "is missing; a Hugging Face config.json of this model type has it.");
    return to_int32(key, *value);
  }
  int32_t integer(const char* key, int32_t absent) const {
    const Json* value = find(key);
    return value == nullptr ? absent : to_int32(key, *value);
  }
  int32_t to_int32(const char* key, const Json& value) const {
    if (!value.is_integer()) throw bad(key, fmt::format("must be an integer; it is {}.", value.dump()));
    double number = value.as_double();
    if (std::abs(number) > std::numeric_limits<int32_t>::max()) {
      throw bad(key, fmt::format("is {}, too large.", value.dump()));
    }
    return static_cast<int32_t>(value.as_int());
  }

  float number(const char* key, float absent) const {
    const Json* value = find(key);
    if (value == nullptr) return absent;
    if (!value->is_number()) throw bad(key, fmt::format("must be a number; it is {}.", value->dump()));
    return static_cast<float>(value->as_double());
  }

  const Json::Object& keys() const { return json_.as_object(); }
  // Whether the key is there, be it null.
  bool has(const char* key) const { return json_.find(key) != nullptr; }

  bool boolean(const char* key, bool absent) const {
    const Json* value = find(key);
    if (value == nullptr) return absent;
    if (!value->is_bool()) throw bad(key, fmt::format("must be true or false; it is {}.", value->dump()));
    return value->as_bool();
  }

  std::string text(const char* key, const std::string& absent) const {
    const Json* value = find(key);
    if (value == nullptr) return absent;
    if (!value->is_string()) throw bad(key, fmt::format("must be a string; it is {}.", value->dump()));
    return value->as_string();
  }

 private:
  const Json& json_;
  const std::string& what_;
};

}  // namespace stoker
