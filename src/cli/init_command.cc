#include <fmt/core.h>

#include <filesystem>

#include "base/config.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "model/model_directory.h"
#include "model/sizes.h"
#include "text/tokenizer.h"
#include "text/tokenizer_builder.h"

namespace stoker {
namespace {

// What `stoker init` is told: a named size, and any number of it by its own key.
struct InitConfig {
  std::string size = "1M";
  std::string family = "qwen3";
  int hidden_size = 0;
  int num_hidden_layers = 0;
  int num_attention_heads = 0;
  int num_key_value_heads = 0;
  int head_dim = 0;
  int intermediate_size = 0;
  int max_position_embeddings = 4096;
  double rope_theta = 10000;
  bool tie_word_embeddings = false;
  int64_t seed = 1;
  std::vector<std::string> words = builder_default_words();

  template <typename V>
  void for_each_field(V& visit) {
    visit("size", size, "Sizes to start from, about so many parameters.", one_of(model_size_names()));
    visit("family", family, "Qwen3 (norms over queries and keys), Qwen2 (biases) or Llama.",
          one_of({"qwen3", "qwen2", "llama"}));
    visit("hidden_size", hidden_size, "0: as in size.", at_least(0));
    visit("num_hidden_layers", num_hidden_layers, "0: as in size.", at_least(0));
    visit("num_attention_heads", num_attention_heads, "0: as in size.", at_least(0));
    visit("num_key_value_heads", num_key_value_heads, "0: as in size.", at_least(0));
    visit("head_dim", head_dim, "0: as in size.", at_least(0));
    visit("intermediate_size", intermediate_size, "0: as in size.", at_least(0));
    visit("max_position_embeddings", max_position_embeddings, "Longest context, tokens.", at_least(1));
    visit("rope_theta", rope_theta, "Base of the rotary positions.", above(0));
    visit("tie_word_embeddings", tie_word_embeddings, "The LM head is the embedding.");
    visit("seed", seed, "Seed of the fresh weights.", at_least(0));
    visit("words", words, "Words that are one token each, beside single bytes and the control tokens.");
  }
};

void override_with(int value, int32_t& size) {
  if (value > 0) size = value;
}

ModelConfig model_config(const InitConfig& init, const Tokenizer& tokenizer) {
  ModelConfig config = model_config_of_size(init.size, tokenizer.vocabulary_size());
  config.model_type = init.family;
  override_with(init.hidden_size, config.hidden_size);
  override_with(init.num_hidden_layers, config.num_hidden_layers);
  override_with(init.num_attention_heads, config.num_attention_heads);
  override_with(init.num_key_value_heads, config.num_key_value_heads);
  override_with(init.head_dim, config.head_dim);
  override_with(init.intermediate_size, config.intermediate_size);
  config.max_position_embeddings = init.max_position_embeddings;
  config.rope_theta = static_cast<float>(init.rope_theta);
  config.tie_word_embeddings = init.tie_word_embeddings;
  config.attention_bias = init.family == "qwen2";
  config.qk_norm = init.family == "qwen3";
  config.eos_token_ids = {tokenizer.require_token("<|im_end|>")};
  config.pad_token_id = tokenizer.require_token("<|endoftext|>");
  validate(config);
  return config;
}

}  // namespace

int run_init(const InitArguments& arguments) {
  InitConfig init;
  ConfigReader reader(init);
  for (const std::string& assignment : arguments.assignments) reader.set(assignment);

  namespace fs = std::filesystem;
  if (fs::exists(arguments.directory)) {
    if (!arguments.overwrite) {
      throw input_error(
          fmt::format("{} exists already; pass --overwrite to replace it.", arguments.directory.string()));
    }
    if (!fs::is_empty(arguments.directory) && !fs::exists(arguments.directory / "config.json")) {
      throw input_error(
          fmt::format("{} is no model directory (it has no config.json) and is not overwritten.",
                      arguments.directory.string()));
    }
  }
  check_output_folder(fs::absolute(arguments.directory).parent_path(), "folder");
  TokenizerPtr tokenizer = Tokenizer::from_json(build_tokenizer_json(init.words), "the fresh tokenizer");
  ModelConfig config = model_config(init, *tokenizer);
  Weights weights = initialize_weights(config, static_cast<uint64_t>(init.seed));
  if (arguments.directory.has_parent_path()) {
    std::error_code told_below;  // by who writes there
    fs::create_directories(arguments.directory.parent_path(), told_below);
  }
  write_folder_atomic(arguments.directory, [&](const fs::path& folder) {
    write_tokenizer(folder, init.words);
    save_model(folder, weights);
  });
  log_info("Wrote a fresh {} model with {} parameters and {} tokens to {}.", init.family,
           config.parameter_count(), config.vocab_size, arguments.directory.string());
  return kExitDone;
}

}  // namespace stoker
