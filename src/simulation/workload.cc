#include "simulation/workload.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/random.h"

namespace stoker {
namespace {

// Where `index` of `count` goes in an order drawn from `key`.
uint64_t place_of(uint64_t index, uint64_t count, uint64_t key) {
  RandomStream random({.run_seed = 0x5eed, .purpose = RandomPurpose::kData, .task_ordinal = key});
  std::vector<uint64_t> places(count);
  std::iota(places.begin(), places.end(), uint64_t{0});
  for (uint64_t last = count; last > 1; --last) std::swap(places[last - 1], places[random.below(last)]);
  return places[index];
}

}  // namespace

Workload::Workload(const LatencyLaw& law, double sample_cv, int32_t group_size, uint64_t seed)
    : law_(law), sample_cv_(sample_cv), group_size_(static_cast<size_t>(group_size)), generator_(seed) {}

void Workload::grow(double times, double ordinals) {
  growth_ = times;
  grown_after_ = ordinals;
}

double Workload::scale(uint64_t ordinal, uint32_t sample) {
  const uint64_t group = group_of(ordinal);
  draw_up_to(group);
  const uint64_t place = shuffled_samples_ ? place_of(sample, group_size_, group) : sample;
  return scales_[group * group_size_ + place];
}

double Workload::group_mean(uint64_t ordinal) {
  const uint64_t group = group_of(ordinal);
  draw_up_to(group);
  const auto first = scales_.begin() + static_cast<std::ptrdiff_t>(group * group_size_);
  return std::accumulate(first, first + static_cast<std::ptrdiff_t>(group_size_), 0.0) /
         static_cast<double>(group_size_);
}

uint64_t Workload::group_of(uint64_t ordinal) const {
  const uint64_t group = ordinal - first_ordinal_;
  if (shuffled_groups_ == 0) return group;
  const uint64_t block = group / shuffled_groups_;
  return block * shuffled_groups_ + place_of(group % shuffled_groups_, shuffled_groups_, block);
}

// Groups are drawn in their order, whatever the order in which they are asked for.
void Workload::draw_up_to(uint64_t group) {
  const auto uniform = [this] { return static_cast<double>(generator_() >> 11) * 0x1p-53; };
  while (scales_.size() <= group * group_size_) {
    const size_t group_now = scales_.size() / group_size_;
    const double grown = std::min(1.0, static_cast<double>(group_now) / grown_after_);
    const double factor = draw_scale(law_, uniform) * (1 + (growth_ - 1) * grown);
    for (size_t sample = 0; sample < group_size_; ++sample) {
      const double noise = law_.kind == "constant" ? 1 : draw_lognormal(sample_cv_, uniform);
      scales_.push_back(cut_scale(law_, factor * noise));
    }
  }
}

}  // namespace stoker
