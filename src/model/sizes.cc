#include "model/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace stoker {
namespace {

struct Size {
  const char* name;
  int32_t hidden, layers, heads, key_value_heads, head_dim, intermediate;
};

constexpr Size kSizes[] = {{"600k", 128, 4, 4, 2, 32, 256},
                           {"1M", 128, 4, 4, 2, 32, 448},
                           {"5M", 256, 6, 8, 4, 32, 704},
                           {"25M", 512, 8, 8, 4, 64, 1408}};

}  // namespace

std::vector<std::string> model_size_names() {
  std::vector<std::string> names;
  for (const Size& size : kSizes) names.emplace_back(size.name);
  return names;
}

ModelConfig model_config_of_size(const std::string& name, int32_t vocab_size) {
  auto size = std::find_if(std::begin(kSizes), std::end(kSizes),
                           [&](const Size& known) { return name == known.name; });
  if (size == std::end(kSizes)) {
    throw input_error(fmt::format("There is no model size \"{}\"; the known ones are {}.", name,
                                  fmt::join(model_size_names(), ", ")));
  }
  ModelConfig config;
  config.vocab_size = vocab_size;
  config.hidden_size = size->hidden;
  config.num_hidden_layers = size->layers;
  config.num_attention_heads = size->heads;
  config.num_key_value_heads = size->key_value_heads;
  config.head_dim = size->head_dim;
  config.intermediate_size = size->intermediate;
  config.max_position_embeddings = 4096;
  config.qk_norm = true;
  return config;
}

}  // namespace stoker
