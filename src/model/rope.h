#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"

namespace stoker {

// Radians a position of the rotary pairs of layers that see everything, [head_dim / 2]: theta^(-2 i / d),
// scaled as config.rope_scaling says. Pairs are (i, i + head_dim / 2), as in Hugging Face's models.
std::vector<double> rope_frequencies(const ModelConfig& config);
// The same for sliding layers: rope_local_theta without scaling, or rope_frequencies when that is 0.
std::vector<double> rope_local_frequencies(const ModelConfig& config);

// The name of a scaling in config.json ("default" for none), and back; an unknown name gives false.
const char* rope_type_name(RopeScalingType type);
bool rope_type_from_name(const std::string& name, RopeScalingType& type);

// Yarn's factor on cosines and sines for contexts stretched by `factor`: 1 + ln(factor) / 10 (Peng et al.
// 2023, equation 22); 1 for factors up to 1.
float yarn_attention_factor(double factor, double scale = 1.0);

// Throws Error(kInput) naming the number that does not fit its scaling.
void validate_rope(const ModelConfig& config);

}  // namespace stoker
