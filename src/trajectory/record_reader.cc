#include "trajectory/record_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace stoker {

RecordReader::RecordReader(const Json& json, std::string place,
                           std::initializer_list<std::string_view> members)
    : json_(json), place_(std::move(place)) {
  if (!json.is_object()) {
    throw input_error(fmt::format("{}: expected an object, found {}.", place_, json.type_name()));
  }
  const Json::Object& object = json.as_object();
  for (size_t i = 0; i < object.size(); ++i) {
    const std::string& name = object[i].first;
    if (std::find(members.begin(), members.end(), name) == members.end()) fail(name, "unknown member");
    for (size_t j = 0; j < i; ++j) {
      if (object[j].first == name) fail(name, "the member occurs twice");
    }
  }
}

const Json& RecordReader::required(std::string_view name) const {
  const Json* member = json_.find(name);
  if (member == nullptr) fail(name, "the member is missing");
  return *member;
}

int64_t RecordReader::integer(std::string_view name, int64_t lowest, int64_t highest) const {
  return read_integer(required(name), place_of(name), lowest, highest);
}

int64_t RecordReader::integer_or(std::string_view name, int64_t fallback) const {
  const Json* member = optional(name);
  return member == nullptr ? fallback : read_integer(*member, place_of(name), INT64_MIN, INT64_MAX);
}

bool RecordReader::boolean_or(std::string_view name, bool fallback) const {
  const Json* member = optional(name);
  if (member == nullptr) return fallback;
  if (!member->is_bool()) fail(name, fmt::format("expected a boolean, found {}", member->type_name()));
  return member->as_bool();
}

const std::string& RecordReader::text(std::string_view name) const {
  const Json& member = required(name);
  if (!member.is_string()) fail(name, fmt::format("expected a string, found {}", member.type_name()));
  return member.as_string();
}

double RecordReader::number(std::string_view name) const {
  const Json& member = required(name);
  if (!member.is_number()) fail(name, fmt::format("expected a number, found {}", member.type_name()));
  return member.as_double();
}

const Json::Array& RecordReader::array(std::string_view name) const {
  const Json& member = required(name);
  if (!member.is_array()) fail(name, fmt::format("expected an array, found {}", member.type_name()));
  return member.as_array();
}

std::string RecordReader::place_of(std::string_view name) const { return fmt::format("{}.{}", place_, name); }

void RecordReader::fail(std::string_view name, const std::string& problem) const {
  throw input_error(fmt::format("{}: {}.", place_of(name), problem));
}

int64_t read_integer(const Json& json, const std::string& place, int64_t lowest, int64_t highest) {
  bool fits = json.is_integer() && (json.as_double() <= 0 || json.as_uint() <= uint64_t{INT64_MAX});
  if (fits && json.as_int() >= lowest && json.as_int() <= highest) return json.as_int();
  throw input_error(fmt::format("{}: expected an integer of {} to {}, found {}.", place, lowest, highest,
                                json.is_number() ? json.dump() : json.type_name()));
}

}  // namespace stoker
