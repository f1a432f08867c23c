#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "base/testing/test_folder.h"
#include "model/config.h"
#include "model/family.h"
#include "model/weights.h"

namespace stoker {

// The sentence of the Error(kInput) that `action` throws; fails the test when it throws none.
template <typename Action>
std::string input_error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

inline ModelConfig tiny_config(const std::string& model_type = "qwen3") {
  ModelConfig config;
  config.model_type = model_type;
  config.vocab_size = 11;
  config.hidden_size = 8;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 6;
  config.intermediate_size = 12;
  config.max_position_embeddings = 32;
  apply_family(*find_family(model_type), config);
  config.bos_token_id = 1;
  config.eos_token_ids = {2};
  config.pad_token_id = 0;
  return config;
}

// Weights in which every number matters: norms are not 1 and biases not 0. Those of the directories in
// goldens/.
inline Weights golden_weights(const std::string& model_type) {
  ModelConfig config = tiny_config(model_type);
  config.tie_word_embeddings = model_type == "qwen2";
  Weights weights = initialize_weights(config, 7);
  RandomStream random({.run_seed = 8});
  for (size_t i = 0; i < weights.manifest().size(); ++i) {
    if (weights.manifest()[i].shape.size() > 1) continue;
    for (float& value : weights.tensor(i)) value += static_cast<float>(random.uniform() - 0.5);
  }
  return weights;
}

}  // namespace stoker
