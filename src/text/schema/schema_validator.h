#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/schema/compiled_schema.h"

namespace stoker {

// Validates one value. Short-lived: one object a validation.
class SchemaValidator {
 public:
  SchemaValidator(const CompiledSchema& compiled, const std::string& root)
      : compiled_(compiled), root_(root) {}

  std::optional<std::string> validate(const Json& value);

 private:
  // Where in the value: a path from the root, on the stack, written out only for a problem.
  struct Place {
    const Place* parent = nullptr;
    std::string_view name;  // of a member; empty data for an element or the root
    size_t index = 0;
    int depth = 0;
  };
  struct Problem {
    std::string sentence;
    int depth = 0;  // of its place: of several, the deepest tells most
  };
  using Result = std::optional<Problem>;

  std::string text_of(const Place& place) const;
  Result problem(const Place& place, const std::string& what) const;
  Result spend(const Place& place, size_t steps);

  Result check(const Json& schema, const Json& value, const Place& place);
  Result check_keyword(const Json& schema, std::string_view keyword, const Json& rule, const Json& value,
                       const Place& place);
  Result check_type(const Json& type, const Json& value, const Place& place) const;
  Result check_choices(const Json::Array& choices, const Json& value, const Place& place);
  Result check_forms(std::string_view keyword, const Json& forms, const Json& value, const Place& place);
  Result check_condition(const Json& schema, const Json& condition, const Json& value, const Place& place);
  Result check_object(const Json& schema, std::string_view keyword, const Json& rule, const Json& value,
                      const Place& place);
  Result check_patterns(const Json& rule, const Json& value, const Place& place);
  Result check_additional(const Json& schema, const Json& rule, const Json& value, const Place& place);
  Result check_dependencies(const Json& rule, const Json& value, const Place& place);
  Result check_array(const Json& schema, std::string_view keyword, const Json& rule, const Json& value,
                     const Place& place);
  Result check_items(const Json& rule, size_t begin, const Json& value, const Place& place);
  Result check_contains(const Json& schema, const Json& rule, const Json& value, const Place& place);
  Result check_unique(const Json& value, const Place& place);
  Result check_number(const Json& schema, std::string_view keyword, const Json& rule, const Json& value,
                      const Place& place) const;
  Result check_string(std::string_view keyword, const Json& rule, const std::string& text,
                      const Place& place);
  Result check_count(bool least, const Json& bound, size_t count, const char* unit, const Place& place) const;
  Result matches(const std::string& pattern, std::string_view text, const Place& place, bool& found);

  const CompiledSchema& compiled_;
  const std::string& root_;
  int depth_ = 0;
  uint64_t steps_ = 0;
  bool out_of_steps_ = false;
};

}  // namespace stoker
