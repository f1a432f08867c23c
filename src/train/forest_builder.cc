#include "train/forest_builder.h"

#include <algorithm>

namespace stoker {

int32_t ForestBuilder::find_shared(std::span<const int32_t> shared, uint64_t group) const {
  auto [first, last] = shared_.equal_range(group);
  for (auto entry = first; entry != last; ++entry) {
    if (std::ranges::equal(batch_->segments[entry->second].tokens, shared)) return entry->second;
  }
  return -1;
}

int64_t ForestBuilder::cost(std::span<const int32_t> tokens, int32_t shared_length, int32_t length,
                            uint64_t group) const {
  // The last token of a row is only asked for.
  int64_t own = std::max(0, length - 1 - shared_length);
  return own + (find_shared(tokens.first(shared_length), group) < 0 ? shared_length : 0);
}

void ForestBuilder::add_row(std::span<const int32_t> tokens, int32_t shared_length, int32_t length,
                            uint64_t group) {
  tokens_ = tokens;
  shared_length_ = shared_length;
  std::span<const int32_t> shared = tokens.first(shared_length);
  root_ = find_shared(shared, group);
  if (root_ < 0) {
    root_ = static_cast<int32_t>(batch_->segments.size());
    batch_->segments.push_back({.tokens = {shared.begin(), shared.end()}});
    shared_.emplace(group, root_);
  }
  child_ = -1;
  if (length - 1 <= shared_length) return;
  std::span<const int32_t> own = tokens.subspan(shared_length, length - 1 - shared_length);
  child_ = static_cast<int32_t>(batch_->segments.size());
  batch_->segments.push_back({.tokens = {own.begin(), own.end()}, .parent = root_});
}

void ForestBuilder::predict(int32_t index, float temperature) {
  int32_t source = index - 1;
  bool in_root = source < shared_length_;
  batch_->segment.push_back(in_root ? root_ : child_);
  batch_->offset.push_back(in_root ? source : source - shared_length_);
  batch_->target.push_back(tokens_[index]);
  batch_->temperature.push_back(temperature);
}

}  // namespace stoker
