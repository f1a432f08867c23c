#include "environment/epoch_order.h"

#include <numeric>
#include <utility>

#include "base/random.h"

namespace stoker {
namespace {

std::vector<uint32_t> permutation(uint64_t rows, uint64_t seed, uint64_t epoch) {
  RandomStream random(StreamKey{.run_seed = seed, .purpose = RandomPurpose::kShuffle, .task_ordinal = epoch});
  std::vector<uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0u);
  for (uint64_t i = rows - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  return order;
}

}  // namespace

uint64_t EpochOrder::row(uint64_t ordinal) const {
  uint64_t epoch = ordinal / rows_;
  std::lock_guard lock(mutex_);
  for (const Epoch& known : recent_) {
    if (known.number == epoch && !known.order.empty()) return known.order[ordinal % rows_];
  }
  recent_[1] = std::exchange(recent_[0], Epoch{epoch, permutation(rows_, seed_, epoch)});
  return recent_[0].order[ordinal % rows_];
}

}  // namespace stoker
