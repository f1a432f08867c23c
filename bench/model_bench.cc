// Public models in their sizes, with random weights: decoding, prefill, scoring and training in both compute
// types, as shares of what this machine can do in the same minute: the rate at which all threads read memory,
// and the rate of a 1024-cubed matrix product. And a model of 3.3 million parameters that trains on 6144
// tokens a step, with what each form of recomputation costs and spares.
//
//   model_bench [--only PREFIX] [--json FILE]
//
// PREFIX: measure only groups whose names, MODEL_TYPE_generation and MODEL_TYPE_training, begin with it.

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "async/compute_pool.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "base/error.h"
#include "compute/cpu/cpu_learner.h"
#include "compute/cpu/float_buffer.h"
#include "compute/cpu/forward_pass.h"
#include "compute/cpu/memory_use.h"
#include "engine/native_engine.h"
#include "generation.h"
#include "model/family.h"
#include "support.h"

namespace stoker {
namespace {

struct BenchModel {
  const char* name;
  ModelConfig config;
};

std::vector<BenchModel> models() {
  ModelConfig smol{.vocab_size = 49152,
                   .hidden_size = 576,
                   .num_hidden_layers = 30,
                   .num_attention_heads = 9,
                   .num_key_value_heads = 3,
                   .head_dim = 64,
                   .intermediate_size = 1536,
                   .max_position_embeddings = 8192};
  smol.model_type = "llama";
  smol.tie_word_embeddings = true;
  ModelConfig gemma{.vocab_size = 262144,
                    .hidden_size = 640,
                    .num_hidden_layers = 18,
                    .num_attention_heads = 4,
                    .num_key_value_heads = 1,
                    .head_dim = 256,
                    .intermediate_size = 2048,
                    .max_position_embeddings = 8192};
  apply_family(*find_family("gemma3_text"), gemma);
  gemma.tie_word_embeddings = true;
  gemma.query_pre_attn_scalar = 256;
  gemma.rope_local_theta = 1e4f;
  gemma.sliding_window = 512;
  gemma.sliding_layers.assign(18, true);
  for (const size_t layer : {5, 11, 17}) gemma.sliding_layers[layer] = false;
  return {{"smollm2_135m", smol}, {"gemma3_270m", gemma}};
}

// Small numbers, made quickly.
WeightsPtr random_weights(const ModelConfig& config) {
  auto weights = std::make_shared<Weights>(config);
  uint32_t state = 1;
  for (float& value : weights->values()) {
    state = state * 1664525u + 1013904223u;
    value = (static_cast<float>(state >> 8) / 16777216.0f - 0.5f) * 0.05f;
  }
  return weights;
}

// GB/s at which all threads read 256 MiB, on the pages that weights lie on.
double read_bandwidth(Parallel& parallel) {
  constexpr int64_t kFloats = int64_t{64} << 20;
  cpu::FloatBuffer buffer(kFloats);
  std::fill_n(buffer.data(), kFloats, 1.0f);
  std::vector<float> sums(static_cast<size_t>(parallel.threads()) * 16);
  const double seconds = best_seconds(0.3, [&] {
    parallel.for_each(parallel.threads(), [&](int t) {
      const int64_t part = kFloats / parallel.threads();
      constexpr int kRun = 1 << 20;
      for (int64_t i = 0; i + kRun <= part; i += kRun) {
        const float* run = buffer.data() + t * part + i;
        sums[static_cast<size_t>(t) * 16] += cpu::kernels().dot(kRun / 2, run, run + kRun / 2);
      }
    });
  });
  return kFloats * 4.0 / seconds / 1e9;
}

// GFLOP/s of a product of 1024-cubed matrices, rows split over the threads.
double matmul_peak(Parallel& parallel, ComputeType type) {
  constexpr int kSize = 1024;
  cpu::FloatBuffer a(kSize * kSize), b(kSize * kSize), c(kSize * kSize);
  std::fill_n(a.data(), kSize * kSize, 0.5f);
  std::fill_n(b.data(), kSize * kSize, 0.25f);
  const double seconds = best_seconds(0.3, [&] {
    parallel.for_each(parallel.threads(), [&](int t) {
      const cpu::Range rows = cpu::part_of(kSize, parallel.threads(), t, 6);
      cpu::kernels().matmul(
          rows.end - rows.begin, kSize, kSize, {a.data() + rows.begin * kSize, kSize, 1},
          {b.data(), kSize * cpu::kLanes, cpu::kLanes, type, type == ComputeType::kBfloat16},
          c.data() + rows.begin * kSize, kSize, cpu::Write::kStore);
    });
  });
  return 2.0 * kSize * kSize * kSize / seconds / 1e9;
}

Task<> score_once(Engine& engine, const std::vector<int32_t>& tokens) {
  const Result<std::vector<float>> scores = co_await engine.score(tokens, 1.0f);
  if (!scores) throw internal_error(scores.failure().message);
}

Task<> train_once(cpu::CpuLearner& learner, const Batch& batch) {
  ForwardResult result = co_await learner.forward(batch);
  Coefficients coefficients;
  coefficients.log_probability.assign(result.scores.log_probability.size(),
                                      -1.0f / static_cast<float>(result.scores.log_probability.size()));
  co_await learner.backward(std::move(result.tape), coefficients);
  co_await learner.step(1e-5);
}

struct Machine {
  double bandwidth;  // GB/s
  double matmul;     // GFLOP/s
};

Machine measure_machine(ComputePool& pool, ComputeType type) {
  return pool.run_blocking(
      [&](Parallel& parallel) { return Machine{read_bandwidth(parallel), matmul_peak(parallel, type)}; });
}

void bench_generation(FigureReport& report, const std::string& name, const ModelConfig& config,
                      const WeightsPtr& weights, ComputeType type, ComputePool& pool,
                      const Machine& machine) {
  RealExecutor executor;
  NativeEngine engine(
      executor, pool, weights,
      {.max_batch = 64, .max_cache_bytes = 1 << 30, .prefix_cache = false, .compute_type = type});
  const auto [body, head] = split_parameters(config);
  constexpr int kContext = 8, kNewTokens = 9;
  const auto seconds_of = [&](int count, int context, int new_tokens) {
    return best_seconds(0.5, [&] { run(executor, generate_all(engine, count, context, new_tokens)); });
  };
  for (const int sequences : {1, 8, 32, 64}) {
    const double seconds = seconds_of(sequences, kContext, kNewTokens) - seconds_of(sequences, kContext, 1);
    const double steps = kNewTokens - 1;
    const std::string decode = fmt::format("{}_decode_{}", name, sequences);
    report.add(decode, sequences * steps / seconds, "tokens/s");
    report.add(decode + "_of_bandwidth",
               100 * (body + head) * bytes_of(type) * steps / seconds / 1e9 / machine.bandwidth, "%");
    report.add(decode + "_of_matmul",
               100 * 2 * (body + head) * sequences * steps / seconds / 1e9 / machine.matmul, "%");
  }
  constexpr int kPrompt = 256;
  const double prefill = kPrompt / seconds_of(1, kPrompt, 1);
  report.add(name + "_prefill", prefill, "tokens/s");
  report.add(name + "_prefill_of_matmul", 100 * 2 * body * prefill / 1e9 / machine.matmul, "%");
  std::vector<int32_t> tokens;
  for (int i = 0; i < kPrompt; ++i) tokens.push_back(i * 11 % 290);
  const double score = kPrompt / best_seconds(0.5, [&] { run(executor, score_once(engine, tokens)); });
  report.add(name + "_score", score, "tokens/s");
  report.add(name + "_score_of_matmul", 100 * 2 * (body + head) * score / 1e9 / machine.matmul, "%");
  run(executor, engine.close());
}

// Forward, backward and AdamW of eight rows of 96 tokens; operations as 6 for each parameter and token.
void bench_training(FigureReport& report, const std::string& name, const ModelConfig& config,
                    const Weights& weights, ComputeType type, ComputePool& pool, const Machine& machine) {
  RealExecutor executor;
  cpu::CpuLearner learner(weights, {}, config.vocab_size, pool, type);
  const Batch batch = training_batch(8, {.tokens = 96, .first_target = 1, .targets = 95}, 290);
  const double seconds = best_seconds(0.1, [&] { run(executor, train_once(learner, batch)); });
  const auto [body, head] = split_parameters(config);
  const double tokens = static_cast<double>(batch.token_count());
  report.add(name + "_training", tokens / seconds, "tokens/s");
  report.add(name + "_training_of_matmul",
             100 * 6 * (body * tokens + head * static_cast<double>(batch.prediction_count())) / seconds /
                 1e9 / machine.matmul,
             "%");
}

// Forward, backward and AdamW of 64 rows of 96 tokens with every form of recomputation, in turn, so that what
// else the machine does meets them alike; and the memory that each holds for a step, its weights left out.
void bench_recompute(FigureReport& report, const std::string& name, const ModelConfig& config,
                     const Weights& weights, ComputeType type, ComputePool& pool, const Machine& machine) {
  RealExecutor executor;
  const Batch batch = training_batch(64, {.tokens = 96, .first_target = 1, .targets = 95}, 290);
  struct Trained {
    std::unique_ptr<cpu::CpuLearner> learner;
    int64_t held = 0;
    double best = 1e9;
  };
  std::vector<Trained> forms;
  constexpr int kRounds = 5;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t f = 0; f < std::size(kRecomputeForms); ++f) {
      if (round == 0) {
        forms.push_back({std::make_unique<cpu::CpuLearner>(weights, OptimizerOptions{}, config.vocab_size,
                                                           pool, type, kRecomputeForms[f])});
      }
      const int64_t before = cpu::FloatBuffer::total_bytes();
      const double seconds = seconds_of([&] { run(executor, train_once(*forms[f].learner, batch)); });
      if (round == 0) {
        forms[f].held = cpu::FloatBuffer::total_bytes() - before - cpu::packed_weight_bytes(config, type) -
                        cpu::backward_weight_bytes(config, type);
      } else {
        forms[f].best = std::min(forms[f].best, seconds);
      }
    }
  }
  const auto [body, head] = split_parameters(config);
  const auto tokens = static_cast<double>(batch.token_count());
  const double operations = 6 * (body * tokens + head * static_cast<double>(batch.prediction_count()));
  for (size_t f = 0; f < forms.size(); ++f) {
    const std::string figure = fmt::format("{}_training_recompute_{}", name, to_string(kRecomputeForms[f]));
    report.add({figure, tokens / forms[f].best, "tokens/s", tokens / forms[0].best, {}});
    report.add(figure + "_of_matmul", 100 * operations / forms[f].best / 1e9 / machine.matmul, "%");
    report.add({figure + "_memory",
                static_cast<double>(forms[f].held) / 1e6,
                "MB",
                static_cast<double>(forms[0].held) / 1e6,
                {}});
  }
}

// Groups whose names begin with `only`.
void measure(FigureReport& report, const std::string& only) {
  ComputePool pool(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  const auto wanted = [&only](const std::string& name, const char* group) {
    return fmt::format("{}_{}", name, group).starts_with(only);
  };
  const ModelConfig small = small_model();
  const WeightsPtr small_weights = random_weights(small);
  for (const ComputeType type : {ComputeType::kFloat32, ComputeType::kBfloat16}) {
    const std::string name = fmt::format("qwen3_3m_{}", to_string(type));
    if (!wanted(name, "training")) continue;
    const Machine machine = measure_machine(pool, type);
    report.add(name + "_matmul_1024", machine.matmul, "GFLOP/s");
    bench_recompute(report, name, small, *small_weights, type, pool, machine);
  }
  for (const BenchModel& model : models()) {
    WeightsPtr weights;
    for (const ComputeType type : {ComputeType::kFloat32, ComputeType::kBfloat16}) {
      const std::string name = fmt::format("{}_{}", model.name, to_string(type));
      const bool generation = wanted(name, "generation");
      const bool training = wanted(name, "training") && model.config.vocab_size < 100'000;
      if (!generation && !training) continue;
      if (weights == nullptr) weights = random_weights(model.config);
      const Machine machine = measure_machine(pool, type);
      report.add(name + "_bandwidth", machine.bandwidth, "GB/s");
      report.add(name + "_matmul_1024", machine.matmul, "GFLOP/s");
      if (generation) bench_generation(report, name, model.config, weights, type, pool, machine);
      if (training) bench_training(report, name, model.config, *weights, type, pool, machine);
    }
  }
}

}  // namespace
}  // namespace stoker

int main(int argument_count, char** arguments) {
  return stoker::bench_main_of_groups(argument_count, arguments, "model_bench", stoker::measure);
}
