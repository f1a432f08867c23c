#pragma once

#include <cstddef>

#include "text/jinja/value.h"

namespace stoker::jinja {

// What one render may cost; beyond, it ends in an error. The defaults leave room for conversations of some
// millions of tokens.
struct RenderLimits {
  size_t max_steps = 5'000'000;          // expressions and statements evaluated, elements visited
  size_t max_bytes = size_t{256} << 20;  // of all text and lists made on the way, and of the output
  int max_depth = 600;                   // of calls and nested expressions
};

// Counts against the limits.
class Budget {
 public:
  explicit Budget(const RenderLimits& limits) : limits_(limits) {}

  void step(size_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.max_steps) throw RenderError{"the template takes too many steps"};
  }
  // Before memory of this size is filled.
  void bytes(size_t count) {
    if (count > limits_.max_bytes - bytes_) throw RenderError{"the template makes too much text"};
    bytes_ += count;
  }
  int max_depth() const { return limits_.max_depth; }

 private:
  RenderLimits limits_;
  size_t steps_ = 0;
  size_t bytes_ = 0;
};

// What a call, a filter or a test is given.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // Throws RenderError when there are more, or others, than `names`.
  void expect(std::initializer_list<std::string_view> names) const;
  // By position or name; null when not given.
  const Value* find(size_t position, std::string_view name) const;
};

}  // namespace stoker::jinja
