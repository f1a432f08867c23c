#pragma once

#include <string>
#include <vector>

#include "model/config.h"

namespace stoker {

// Sizes of fresh models by name, about so many parameters: "600k", "1M" (the demo's), "5M", "25M".
std::vector<std::string> model_size_names();

// A Qwen3-type configuration of that size; throws Error(kInput) listing the names when there is none.
ModelConfig model_config_of_size(const std::string& name, int32_t vocab_size);

}  // namespace stoker
