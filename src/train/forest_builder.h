#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "compute/batch.h"

namespace stoker {

// Adds token sequences to a Batch as paths of its forest; what follows the last prediction of a row is left
// out, since nothing would be read from it.
//
//   ForestBuilder forest(&batch);
//   forest.add_row(tokens, prompt_length, length, group);
//   forest.predict(index, temperature);   // tokens[index] from those before it
class ForestBuilder {
 public:
  explicit ForestBuilder(Batch* batch) : batch_(batch) {}

  // Forward tokens that add_row would add. `shared_length` tokens at the row's beginning are computed once
  // for all rows of one `group` that begin with the same ones; `length` is past the last token that a
  // prediction asks for.
  int64_t cost(std::span<const int32_t> tokens, int32_t shared_length, int32_t length, uint64_t group) const;

  // Appends the row and makes it the current one. `tokens` must stay alive until the row's predictions are
  // added.
  void add_row(std::span<const int32_t> tokens, int32_t shared_length, int32_t length, uint64_t group);

  // Asks for tokens[index] of the current row, 1 <= index < length, given those before it.
  void predict(int32_t index, float temperature);

 private:
  int32_t find_shared(std::span<const int32_t> shared, uint64_t group) const;

  Batch* batch_;
  std::multimap<uint64_t, int32_t> shared_;  // group to root segments
  std::span<const int32_t> tokens_;
  int32_t shared_length_ = 0;
  int32_t root_ = -1;
  int32_t child_ = -1;
};

}  // namespace stoker
