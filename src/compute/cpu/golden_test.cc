// Losses, gradients and log-probabilities against recorded numbers of independent programs.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/file.h"
#include "base/json.h"
#include "compute/cpu/test_support.h"
#include "model/model_directory.h"
#include "model/safetensors.h"

namespace stoker::cpu {
namespace {

std::vector<float> floats(const Json& array) {
  std::vector<float> values;
  for (const Json& value : array.as_array()) values.push_back(static_cast<float>(value.as_double()));
  return values;
}

ModelConfig config_of_case(const Json& c) {
  ModelConfig config;
  config.model_type = c.at("model_type").as_string();
  const auto number = [&](const char* name) { return static_cast<int32_t>(c.at(name).as_int()); };
  config.vocab_size = number("vocab_size");
  config.hidden_size = number("hidden_size");
  config.num_hidden_layers = number("num_hidden_layers");
  config.num_attention_heads = number("num_attention_heads");
  config.num_key_value_heads = number("num_key_value_heads");
  config.head_dim = number("head_dim");
  config.intermediate_size = number("intermediate_size");
  config.max_position_embeddings = number("max_position_embeddings");
  config.qk_norm = c.at("qk_norm").as_bool();
  config.attention_bias = c.at("attention_bias").as_bool();
  config.tie_word_embeddings = c.at("tie_word_embeddings").as_bool();
  return config;
}

// The rule of goldens/decoder_training.py.
Weights weights_of_case(const ModelConfig& config) {
  Weights weights(config);
  uint32_t index = 0;
  for (size_t t = 0; t < weights.manifest().size(); ++t) {
    const TensorInfo& info = weights.manifest()[t];
    for (float& value : weights.tensor(t)) {
      const double noise = static_cast<double>((index++ * 2654435761u + 12345u) >> 8) / 16777216.0 - 0.5;
      if (info.shape.size() == 1) {
        value = static_cast<float>((info.name.ends_with("bias") ? 0.0 : 1.0) + 0.2 * noise);
      } else {
        value = static_cast<float>(noise * 2 / std::sqrt(static_cast<double>(info.shape[1])));
      }
    }
  }
  return weights;
}

Batch batch_of_case(int32_t vocabulary, float temperature) {
  Batch batch;
  for (const int length : {11, 17, 8}) {
    const int s = static_cast<int>(batch.segments.size());
    Segment segment;
    for (int i = 0; i < length; ++i) segment.tokens.push_back((s * 5 + i * i * 3 + i * 7) % vocabulary);
    batch.segments.push_back(std::move(segment));
  }
  predict_within_segments(batch);
  batch.temperature.assign(batch.segment.size(), temperature);
  return batch;
}

TEST(Golden, LossesAndGradientsOfTwentyStepsMatchTheIndependentProgram) {
  const Json golden = Json::parse(
      read_file(std::filesystem::path(STOKER_SOURCE_DIR) / "src/compute/cpu/testdata/decoder_training.json"));
  const Json& o = golden.at("optimizer");
  const auto option = [&](const char* name) { return static_cast<float>(o.at(name).as_double()); };
  const OptimizerOptions options{option("beta1"), option("beta2"), option("epsilon"), option("weight_decay"),
                                 option("max_gradient_norm")};
  for (const Json& c : golden.at("cases").as_array()) {
    const std::string name = c.at("config").at("name").as_string();
    const ModelConfig config = config_of_case(c.at("config"));
    LearnerBench bench(weights_of_case(config), 2, options);
    const Batch batch =
        batch_of_case(config.vocab_size, static_cast<float>(c.at("config").at("temperature").as_double()));
    const float count = static_cast<float>(batch.segment.size());
    for (size_t step = 0; step < c.at("losses").as_array().size(); ++step) {
      ForwardResult result = bench.forward(batch);
      const std::vector<float>& scores = result.scores.log_probability;
      const double loss = -std::accumulate(scores.begin(), scores.end(), 0.0) / count;
      EXPECT_NEAR(loss, c.at("losses").as_array()[step].as_double(), 2e-5) << name << " step " << step;
      bench.backward(std::move(result.tape), {std::vector<float>(scores.size(), -1 / count), {}, {}});
      if (step == 0) {
        for (size_t t = 0; t < bench.learner().gradients().manifest().size(); ++t) {
          const std::string& tensor = bench.learner().gradients().manifest()[t].name;
          const std::vector<float> expected = floats(c.at("gradients").at(tensor));
          ASSERT_EQ(expected.size(), bench.learner().gradients().tensor(t).size()) << tensor;
          EXPECT_LT(relative_error(bench.learner().gradients().tensor(t), expected), 1e-5)
              << name << " " << tensor;
        }
      }
      const double norm = c.at("gradient_norms").as_array()[step].as_double();
      EXPECT_NEAR(bench.step(option("learning_rate")).gradient_norm, norm, 3e-4 * norm)
          << name << " step " << step;
    }
  }
}

// The checkpoint format of llama2.c: seven int32, then float32 tensors, each over all layers.
Weights read_llama2c(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  int32_t header[7];
  std::memcpy(header, bytes.data(), sizeof(header));
  ModelConfig config;
  config.model_type = "llama";
  config.hidden_size = header[0];
  config.intermediate_size = header[1];
  config.num_hidden_layers = header[2];
  config.num_attention_heads = header[3];
  config.num_key_value_heads = header[4];
  config.vocab_size = std::abs(header[5]);
  config.max_position_embeddings = header[6];
  config.head_dim = config.hidden_size / config.num_attention_heads;
  config.rms_norm_eps = 1e-5f;
  config.tie_word_embeddings = header[5] > 0;
  Weights weights(config);
  size_t position = sizeof(header);
  const auto read = [&](const std::string& name) {
    const std::span<float> tensor = weights.tensor(name);
    std::memcpy(tensor.data(), bytes.data() + position, tensor.size_bytes());
    position += tensor.size_bytes();
  };
  // Pairs of neighbours are rotated there, halves of a head here: rows of Q and K change places.
  const auto reorder = [&](const std::string& name) {
    const std::span<float> tensor = weights.tensor(name);
    const std::vector<float> old(tensor.begin(), tensor.end());
    const int d = config.head_dim, width = config.hidden_size;
    for (int row = 0; row < static_cast<int>(old.size()) / width; ++row) {
      const int i = row % d, target = row - i + (i % 2 == 0 ? i / 2 : d / 2 + i / 2);
      std::copy_n(old.begin() + int64_t{row} * width, width, tensor.begin() + int64_t{target} * width);
    }
  };
  const auto each_layer = [&](const std::string& name) {
    for (int l = 0; l < config.num_hidden_layers; ++l) read("model.layers." + std::to_string(l) + "." + name);
  };
  read("model.embed_tokens.weight");
  for (const char* name :
       {"input_layernorm.weight", "self_attn.q_proj.weight", "self_attn.k_proj.weight",
        "self_attn.v_proj.weight", "self_attn.o_proj.weight", "post_attention_layernorm.weight",
        "mlp.gate_proj.weight", "mlp.down_proj.weight", "mlp.up_proj.weight"}) {
    each_layer(name);
  }
  read("model.norm.weight");
  for (int l = 0; l < config.num_hidden_layers; ++l) {
    reorder("model.layers." + std::to_string(l) + ".self_attn.q_proj.weight");
    reorder("model.layers." + std::to_string(l) + ".self_attn.k_proj.weight");
  }
  return weights;
}

TEST(Golden, Stories260KGivesTheRecordedLogProbabilitiesAndGreedyText) {
  const std::filesystem::path folder =
      std::filesystem::path(STOKER_SOURCE_DIR) / "../shared/data/models/stories260K";
  if (!std::filesystem::exists(folder / "stories260K.bin")) {
    GTEST_SKIP() << "The model file " << (folder / "stories260K.bin").string() << " is not on this machine.";
  }
  const Weights weights = read_llama2c(folder / "stories260K.bin");
  const Json golden = Json::parse(read_file(folder / "golden_logprobs.json"));
  const std::vector<Json>& ids = golden.at("greedy_ids").as_array();
  const std::vector<Json>& expected = golden.at("logprob_T1").as_array();
  SerialParallel serial;
  DecoderForward decoder(pack_weights(weights, ComputeType::kFloat32, serial), weights.config().vocab_size);
  CachedSequence sequence(weights.config(), 64);
  std::vector<float> logits(weights.config().vocab_size);
  int32_t token = static_cast<int32_t>(golden.at("start_token").as_int());
  const std::vector<int32_t> row = {0};
  for (size_t i = 0; i < ids.size(); ++i) {
    const SequenceChunk chunk = sequence.append({&token, 1});
    decoder.run({&chunk, 1}, row, logits.data(), serial);
    token = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
    ASSERT_EQ(token, ids[i].as_int()) << "token " << i;
    EXPECT_NEAR(log_probability(logits, 1.0f, token), expected[i].as_double(), 1e-4) << "token " << i;
  }
}

// Models as transformers wrote them, with its logits and gradients: src/model/goldens/make_families.py.
class FamilyGolden : public testing::TestWithParam<const char*> {
 protected:
  std::vector<float> numbers(const std::string& name) const {
    const TensorView& view = *golden_.find(name);
    std::vector<float> values(view.data.size() / (view.type == TensorType::kBF16 ? 2 : 4));
    copy_to_float(view, values);
    return values;
  }

  std::vector<float> logits(ComputeType type) const {
    const int32_t vocabulary = weights_.config().vocab_size;
    SerialParallel serial;
    DecoderForward decoder(pack_weights(weights_, type, serial), vocabulary);
    CachedSequence sequence(weights_.config(), 16, type);
    const std::vector<int32_t> tokens = ids();
    const SequenceChunk chunk = sequence.append(tokens);
    std::vector<int32_t> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<float> result(tokens.size() * vocabulary);
    decoder.run({&chunk, 1}, rows, result.data(), serial);
    return result;
  }

  // Of the mean loss, in the order of the manifest.
  Weights gradients(ComputeType type) const {
    LearnerBench bench(weights_, 1, {}, 0, type);
    Batch batch;
    batch.segments.push_back({ids(), -1});
    predict_within_segments(batch);
    ForwardResult result = bench.forward(batch);
    const float count = static_cast<float>(batch.segment.size());
    bench.backward(std::move(result.tape), {std::vector<float>(batch.segment.size(), -1 / count), {}, {}});
    return bench.learner().gradients();
  }

  std::vector<int32_t> ids() const {
    std::vector<int32_t> ids(golden_.find("ids")->data.size() / sizeof(int32_t));
    std::memcpy(ids.data(), golden_.find("ids")->data.data(), ids.size() * sizeof(int32_t));
    return ids;
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(STOKER_SOURCE_DIR) / "src/model/goldens/families" / GetParam();
  const SafetensorsFile golden_{folder_ / "golden.safetensors"};
  const Weights weights_ = load_model_weights(folder_);
};

TEST_P(FamilyGolden, LogitsAndGradientsAreThoseOfTransformers) {
  EXPECT_LT(relative_error(logits(ComputeType::kFloat32), numbers("logits")), 5e-6);
  const Weights own = gradients(ComputeType::kFloat32);
  for (size_t t = 0; t < own.manifest().size(); ++t) {
    const std::string& name = own.manifest()[t].name;
    EXPECT_LT(relative_error(own.tensor(t), numbers("gradient." + name)), 2e-5) << name;
  }
}

// Both round weights and what meets them; PyTorch rounds every other intermediate result too. Over a whole
// gradient, in the Euclidean norm, Stoker must lie nearer to the float32 numbers than PyTorch does. Of a
// single tensor the larger of two errors is chance: within 16 roundings (each at most 2^-9) of the largest
// element.
TEST_P(FamilyGolden, LogitsAndGradientsInBfloat16AreThoseOfTransformersWithinItsRounding) {
  struct Errors {
    double own = 0, theirs = 0;
  };
  const auto compare = [&](std::span<const float> own, const std::string& name, Errors& errors) {
    const std::vector<float> exact = numbers(name), theirs = numbers("bfloat16." + name);
    for (size_t i = 0; i < exact.size(); ++i) {
      errors.own += std::pow(static_cast<double>(own[i]) - exact[i], 2);
      errors.theirs += std::pow(static_cast<double>(theirs[i]) - exact[i], 2);
    }
    EXPECT_LT(relative_error(own, exact), 16.0 / 512) << name;
  };
  Errors of_logits, of_gradients;
  compare(logits(ComputeType::kBfloat16), "logits", of_logits);
  const Weights own = gradients(ComputeType::kBfloat16);
  for (size_t t = 0; t < own.manifest().size(); ++t) {
    compare(own.tensor(t), "gradient." + own.manifest()[t].name, of_gradients);
  }
  EXPECT_LT(of_logits.own, of_logits.theirs);
  EXPECT_LT(of_gradients.own, of_gradients.theirs);
}

INSTANTIATE_TEST_SUITE_P(All, FamilyGolden,
                         testing::Values("llama2", "llama3", "llama_linear", "llama_dynamic", "llama_yarn",
                                         "mistral", "qwen2", "qwen3", "gemma2", "gemma3"),
                         [](const auto& info) { return std::string(info.param); });

// What Stoker writes, transformers loads; its logits were recorded by src/model/goldens/make.sh.
TEST(Golden, ExportedModelsGiveTheLogitsOfTransformers) {
  const std::filesystem::path folder = std::filesystem::path(STOKER_SOURCE_DIR) / "src/model/goldens";
  const Json golden = Json::parse(read_file(folder / "logits.json"));
  SerialParallel serial;
  for (const char* family : {"llama", "qwen2", "qwen3"}) {
    const Weights weights = load_model_weights(folder / family);
    std::vector<int32_t> ids;
    for (const Json& id : golden.at(family).at("ids").as_array())
      ids.push_back(static_cast<int32_t>(id.as_int()));
    const int32_t vocabulary = weights.config().vocab_size;
    DecoderForward decoder(pack_weights(weights, ComputeType::kFloat32, serial), vocabulary);
    CachedSequence sequence(weights.config(), 64);
    const SequenceChunk chunk = sequence.append(ids);
    std::vector<int32_t> rows(ids.size());
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<float> logits(ids.size() * vocabulary);
    decoder.run({&chunk, 1}, rows, logits.data(), serial);
    const std::vector<Json>& expected = golden.at(family).at("logits").as_array();
    for (size_t t = 0; t < ids.size(); ++t) {
      const std::vector<float> row = floats(expected[t]);
      for (int32_t v = 0; v < vocabulary; ++v) {
        EXPECT_NEAR(logits[t * vocabulary + v], row[v], 1e-5) << family << " token " << t << " id " << v;
      }
    }
  }
}

}  // namespace
}  // namespace stoker::cpu
