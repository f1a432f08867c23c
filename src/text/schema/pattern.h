#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace stoker {

// A regular expression of a JSON Schema: searched for anywhere in a text, \d and \w are ASCII, $ is the very
// end. Immutable.
class SchemaPattern {
 public:
  // Throws Error(kInput) with a clause ("has an error at character 3: ...") where it cannot be read.
  explicit SchemaPattern(const std::string& pattern);
  ~SchemaPattern();
  SchemaPattern(SchemaPattern&&) noexcept;

  enum class Found { kYes, kNo, kTooMuchWork };
  Found find(std::string_view text) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace stoker
