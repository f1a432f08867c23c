#include "model/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace stoker {
namespace {

std::vector<double> plain_frequencies(int32_t head_dim, float theta) {
  std::vector<double> frequencies(head_dim / 2);
  for (int i = 0; i < head_dim / 2; ++i) {
    frequencies[i] = std::pow(static_cast<double>(theta), -2.0 * i / head_dim);
  }
  return frequencies;
}

// Llama 3.1: wavelengths above original / low_freq_factor are stretched, those below original /
// high_freq_factor stay, and between them the two are blended.
void scale_llama3(const RopeScaling& s, std::vector<double>& frequencies) {
  const double original = s.original_max_position_embeddings;
  for (double& frequency : frequencies) {
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength > original / s.low_freq_factor) {
      frequency /= s.factor;
    } else if (wavelength >= original / s.high_freq_factor) {
      const double blend = (original / wavelength - s.low_freq_factor) /
                           (static_cast<double>(s.high_freq_factor) - s.low_freq_factor);
      frequency *= (1 - blend) / s.factor + blend;
    }
  }
}

// Pairs that turn more than beta_fast times over the original context stay, those that turn less than
// beta_slow times are stretched, and a ramp over the pair's index lies between.
void scale_yarn(const RopeScaling& s, float theta, std::vector<double>& frequencies) {
  const double size = 2.0 * static_cast<double>(frequencies.size());
  const auto pair_that_turns = [&](double rotations) {
    return size * std::log(s.original_max_position_embeddings / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(static_cast<double>(theta)));
  };
  double low = pair_that_turns(s.beta_fast), high = pair_that_turns(s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] *= ramp / s.factor + (1 - ramp);
  }
}

void require_above(const char* key, double value, double bound) {
  if (value > bound && std::isfinite(value)) return;
  throw input_error(fmt::format(
      "The rotary scaling of the model configuration has {} = {}; it must be above {}.", key, value, bound));
}

struct TypeName {
  RopeScalingType type;
  const char* name;
};
constexpr TypeName kTypeNames[] = {{RopeScalingType::kNone, "default"},
                                   {RopeScalingType::kLinear, "linear"},
                                   {RopeScalingType::kDynamic, "dynamic"},
                                   {RopeScalingType::kLlama3, "llama3"},
                                   {RopeScalingType::kYarn, "yarn"}};

}  // namespace

std::vector<double> rope_frequencies(const ModelConfig& config) {
  std::vector<double> frequencies = plain_frequencies(config.head_dim, config.rope_theta);
  const RopeScaling& scaling = config.rope_scaling;
  switch (scaling.type) {
    case RopeScalingType::kLinear:
      for (double& frequency : frequencies) frequency /= scaling.factor;
      break;
    case RopeScalingType::kLlama3:
      scale_llama3(scaling, frequencies);
      break;
    case RopeScalingType::kYarn:
      scale_yarn(scaling, config.rope_theta, frequencies);
      break;
    case RopeScalingType::kNone:
    case RopeScalingType::kDynamic:
      break;
  }
  return frequencies;
}

std::vector<double> rope_local_frequencies(const ModelConfig& config) {
  if (config.rope_local_theta == 0) return rope_frequencies(config);
  return plain_frequencies(config.head_dim, config.rope_local_theta);
}

const char* rope_type_name(RopeScalingType type) {
  for (const TypeName& entry : kTypeNames) {
    if (entry.type == type) return entry.name;
  }
  throw internal_error("A rotary scaling has a type that is no member of RopeScalingType.");
}

bool rope_type_from_name(const std::string& name, RopeScalingType& type) {
  for (const TypeName& entry : kTypeNames) {
    if (name != entry.name) continue;
    type = entry.type;
    return true;
  }
  return false;
}

float yarn_attention_factor(double factor, double scale) {
  return factor <= 1 ? 1.0f : static_cast<float>(0.1 * scale * std::log(factor) + 1.0);
}

void validate_rope(const ModelConfig& config) {
  require_above("rope_theta", config.rope_theta, 0);
  if (config.rope_local_theta != 0) require_above("rope_local_base_freq", config.rope_local_theta, 0);
  const RopeScaling& s = config.rope_scaling;
  if (s.type == RopeScalingType::kNone) return;
  require_above("factor", s.factor, 0);
  require_above("attention_factor", s.attention_factor, 0);
  if (s.type == RopeScalingType::kLlama3) {
    require_above("low_freq_factor", s.low_freq_factor, 0);
    require_above("high_freq_factor", s.high_freq_factor, s.low_freq_factor);
  }
  if (s.type == RopeScalingType::kYarn) {
    require_above("rope_theta", config.rope_theta, 1);
    require_above("beta_slow", s.beta_slow, 0);
    require_above("beta_fast", s.beta_fast, s.beta_slow);
  }
  if (s.type == RopeScalingType::kLlama3 || s.type == RopeScalingType::kYarn) {
    require_above("original_max_position_embeddings", s.original_max_position_embeddings, 0);
  }
}

}  // namespace stoker
