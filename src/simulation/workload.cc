#include "simulation/workload.h"

#include <algorithm>
#include <numeric>

namespace stoker {

Workload::Workload(const LatencyLaw& law, double sample_cv, int32_t group_size, uint64_t seed)
    : law_(law), sample_cv_(sample_cv), group_size_(static_cast<size_t>(group_size)), generator_(seed) {}

void Workload::grow(double times, double ordinals) {
  growth_ = times;
  grown_after_ = ordinals;
}

double Workload::scale(uint64_t ordinal, uint32_t sample) {
  draw_up_to(ordinal);
  const size_t place = reversed_ ? group_size_ - 1 - sample : sample;
  return scales_[ordinal * group_size_ + place];
}

double Workload::group_mean(uint64_t ordinal) {
  draw_up_to(ordinal);
  const auto first = scales_.begin() + static_cast<std::ptrdiff_t>(ordinal * group_size_);
  return std::accumulate(first, first + static_cast<std::ptrdiff_t>(group_size_), 0.0) /
         static_cast<double>(group_size_);
}

// Groups are drawn in their order, whatever the order in which they are asked for.
void Workload::draw_up_to(uint64_t ordinal) {
  const auto uniform = [this] { return static_cast<double>(generator_() >> 11) * 0x1p-53; };
  while (scales_.size() <= ordinal * group_size_) {
    const size_t ordinal_now = scales_.size() / group_size_;
    const double grown = std::min(1.0, static_cast<double>(ordinal_now) / grown_after_);
    const double factor = draw_scale(law_, uniform) * (1 + (growth_ - 1) * grown);
    for (size_t sample = 0; sample < group_size_; ++sample) {
      const double noise = law_.kind == "constant" ? 1 : draw_lognormal(sample_cv_, uniform);
      scales_.push_back(cut_scale(law_, factor * noise));
    }
  }
}

}  // namespace stoker
