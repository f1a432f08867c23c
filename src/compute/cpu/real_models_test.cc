// Public models against recorded continuations, where src/compute/goldens/real_models.sh has put them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "compute/cpu/test_support.h"
#include "model/model_directory.h"

namespace stoker::cpu {
namespace {

const std::filesystem::path kRoot = STOKER_SOURCE_DIR;

std::vector<Json> json_lines(const std::filesystem::path& path) {
  std::vector<Json> rows;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
  return rows;
}

std::vector<int32_t> integers(const Json& array) {
  std::vector<int32_t> values;
  for (const Json& value : array.as_array()) values.push_back(static_cast<int32_t>(value.as_int()));
  return values;
}

// Logits [ids.size() - first, vocabulary] of what follows ids[first], and of what follows each behind it.
// Those of a prompt and its continuation in one pass are those of decoding, bit for bit.
std::vector<float> logits_from(DecoderForward& decoder, const ModelConfig& config,
                               const std::vector<int32_t>& ids, size_t first, Parallel& parallel,
                               ComputeType type = ComputeType::kFloat32) {
  CachedSequence sequence(config, 256, type);
  const SequenceChunk chunk = sequence.append(ids);
  std::vector<int32_t> rows(ids.size() - first);
  std::iota(rows.begin(), rows.end(), static_cast<int32_t>(first));
  std::vector<float> logits(rows.size() * static_cast<size_t>(config.vocab_size));
  decoder.run({&chunk, 1}, rows, logits.data(), parallel);
  return logits;
}

// Every greedy id is the largest logit, unless the reference's two best lie within 1e-3; log-probabilities
// are within `tolerance` of those under `key`.
void expect_greedy(const std::filesystem::path& model, const std::filesystem::path& golden, const char* key,
                   double tolerance) {
  if (!std::filesystem::exists(model)) {
    GTEST_SKIP() << model.string() << " is not here; src/compute/goldens/real_models.sh downloads it.";
  }
  if (!std::filesystem::exists(golden)) GTEST_SKIP() << golden.string() << " is not on this machine.";
  const Weights weights = load_model_weights(model);
  const ModelConfig& config = weights.config();
  ThreadTeam team(2);
  DecoderForward decoder(pack_weights(weights, ComputeType::kFloat32, team), config.vocab_size);
  double worst = 0;
  int tokens = 0, ties = 0;
  for (const Json& row : json_lines(golden)) {
    std::vector<int32_t> ids = integers(row.at("prompt_ids"));
    const size_t prompt = ids.size();
    const std::vector<int32_t> greedy = integers(row.at("greedy_ids"));
    ids.insert(ids.end(), greedy.begin(), greedy.end() - 1);
    const std::vector<float> logits = logits_from(decoder, config, ids, prompt - 1, team);
    for (size_t i = 0; i < greedy.size(); ++i) {
      const std::span<const float> own = std::span(logits).subspan(i * config.vocab_size, config.vocab_size);
      const auto best = static_cast<int32_t>(std::ranges::max_element(own) - own.begin());
      if (best != greedy[i]) {
        EXPECT_LT(row.at("greedy_margin_to_2nd").as_array()[i].as_double(), 1e-3)
            << row.at("text").as_string() << " token " << i;
        ++ties;
      }
      const double expected = row.at(key).as_array()[i].as_double();
      const double difference = std::abs(log_probability(own, 1.0f, greedy[i]) - expected);
      EXPECT_LT(difference, tolerance) << row.at("text").as_string() << " token " << i;
      worst = std::max(worst, difference);
      ++tokens;
    }
  }
  std::printf("%d greedy tokens, %d of them ties, largest difference of a log-probability %.2g\n", tokens,
              ties, worst);
}

// In bfloat16 the recorded tokens have log-probabilities as far from those of float32 as rounding makes them:
// of the mean `tolerance`.
void expect_near_in_bfloat16(const std::filesystem::path& model, const std::filesystem::path& golden,
                             const char* key, double tolerance) {
  if (!std::filesystem::exists(model) || !std::filesystem::exists(golden)) {
    GTEST_SKIP() << model.string() << " or " << golden.string()
                 << " is not here; src/compute/goldens/real_models.sh downloads the model.";
  }
  const Weights weights = load_model_weights(model);
  const ModelConfig& config = weights.config();
  ThreadTeam team(2);
  DecoderForward decoder(pack_weights(weights, ComputeType::kBfloat16, team), config.vocab_size);
  double sum = 0;
  int tokens = 0;
  for (const Json& row : json_lines(golden)) {
    std::vector<int32_t> ids = integers(row.at("prompt_ids"));
    const size_t prompt = ids.size();
    const std::vector<int32_t> greedy = integers(row.at("greedy_ids"));
    ids.insert(ids.end(), greedy.begin(), greedy.end() - 1);
    const std::vector<float> logits =
        logits_from(decoder, config, ids, prompt - 1, team, ComputeType::kBfloat16);
    for (size_t i = 0; i < greedy.size(); ++i, ++tokens) {
      const std::span<const float> own = std::span(logits).subspan(i * config.vocab_size, config.vocab_size);
      sum += std::abs(log_probability(own, 1.0f, greedy[i]) - row.at(key).as_array()[i].as_double());
    }
  }
  EXPECT_LT(sum / tokens, tolerance);
  std::printf("%d tokens, mean difference of a log-probability %.2g\n", tokens, sum / tokens);
}

TEST(RealModels, SmolLm2InBfloat16IsNear) {
  expect_near_in_bfloat16(kRoot / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf",
                          kRoot / "src/compute/cpu/testdata/smollm2_greedy.json", "greedy_logprobs", 0.02);
}

TEST(RealModels, Gemma3InBfloat16IsNear) {
  expect_near_in_bfloat16(kRoot / "build/models/gemma-3-270m.Q4_K_M.gguf",
                          kRoot / "../shared/data/gemma3-270m/goldens_f32.jsonl", "greedy_logprobs_f64",
                          0.05);
}

TEST(RealModels, SmolLm2ContinuesAsPyTorchDoes) {
  expect_greedy(kRoot / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf",
                kRoot / "src/compute/cpu/testdata/smollm2_greedy.json", "greedy_logprobs", 1e-3);
}

TEST(RealModels, Gemma3ContinuesAsLlamaCppDoes) {
  expect_greedy(kRoot / "build/models/gemma-3-270m.Q4_K_M.gguf",
                kRoot / "../shared/data/gemma3-270m/goldens_f32.jsonl", "greedy_logprobs_f64", 1e-3);
}

TEST(RealModels, Gemma3ScoresALongTextAsTheFloat64Program) {
  const std::filesystem::path model = kRoot / "build/models/gemma-3-270m.Q4_K_M.gguf";
  const std::filesystem::path golden = kRoot / "../shared/data/gemma3-270m/teacher_forced.jsonl";
  if (!std::filesystem::exists(model) || !std::filesystem::exists(golden)) {
    GTEST_SKIP() << model.string() << " or " << golden.string()
                 << " is not here; src/compute/goldens/real_models.sh downloads the model.";
  }
  const Weights weights = load_model_weights(model);
  ThreadTeam team(2);
  const int32_t vocabulary = weights.config().vocab_size;
  DecoderForward decoder(pack_weights(weights, ComputeType::kFloat32, team), vocabulary);
  for (const Json& row : json_lines(golden)) {
    if (row.at("variant").as_string() != "numpy_float64") continue;
    const std::vector<int32_t> ids = integers(row.at("ids"));
    const std::vector<float> logits = logits_from(decoder, weights.config(), ids, 0, team);
    double worst = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const std::span<const float> own = std::span(logits).subspan(i * vocabulary, vocabulary);
      worst = std::max(worst, std::abs(log_probability(own, 1.0f, ids[i + 1]) -
                                       row.at("logprobs").as_array()[i].as_double()));
    }
    EXPECT_LT(worst, 1e-3);
    std::printf("%zu tokens, largest difference of a log-probability %.2g\n", ids.size() - 1, worst);
  }
}

}  // namespace
}  // namespace stoker::cpu
