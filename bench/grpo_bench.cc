// The model of 3.3 million parameters in both compute types: sampling, and whole GRPO steps through engine,
// trainer, objective and learner as a synchronous run has them.
//
//   grpo_bench [--only PREFIX] [--json FILE]
//
// PREFIX: measure only groups whose names, qwen3_3m_TYPE_sampling and qwen3_3m_TYPE_grpo, begin with it.
// Sampling is of prompts of 32 tokens, which belongs to its time, and 64 new tokens each. A GRPO step samples
// 64 tokens eight times for each of eight such prompts, computes rewards, advantages and the clipped loss,
// and gradients, updates with AdamW and publishes the new weights to the engine. Rendering and environments
// have no part in it.

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/compute_pool.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "async/scope.h"
#include "base/error.h"
#include "compute/cpu/cpu_learner.h"
#include "engine/native_engine.h"
#include "generation.h"
#include "support.h"
#include "train/trainer.h"

namespace stoker {
namespace {

constexpr int kPrompts = 8, kSamples = 8, kPromptTokens = 32, kNewTokens = 64;

// Adds what is sampled to a trajectory.
class TrajectorySink final : public TokenSink {
 public:
  explicit TrajectorySink(Trajectory& trajectory) : trajectory_(trajectory) {}
  void accept(const SampledToken& token) override {
    trajectory_.append_sampled(token.id, token.log_probability, token.version, token.mixed);
  }

 private:
  Trajectory& trajectory_;
};

// Share of even ids among what was sampled.
double even_share(const Trajectory& trajectory) {
  int even = 0;
  for (int i = kPromptTokens; i < trajectory.size(); ++i) even += trajectory.tokens()[i] % 2 == 0 ? 1 : 0;
  return even / static_cast<double>(trajectory.sampled_count());
}

// Batches of groups sampled one after the other's update, as in a synchronous run.
class SampledGroups final : public RolloutSource {
 public:
  explicit SampledGroups(Engine& engine) : engine_(engine) {}

  Task<std::optional<RolloutBatch>> next_batch() override {
    RolloutBatch batch{.step = engine_.version()};
    Scope scope(co_await current_executor(), co_await current_cancellation());
    batch.groups.resize(kPrompts);
    for (Group& group : batch.groups) {
      group.task_ordinal = next_ordinal_++;
      group.episodes.resize(kSamples);
      for (uint32_t sample = 0; sample < kSamples; ++sample) {
        group.episodes[sample].id = {.task_ordinal = group.task_ordinal, .sample = sample};
        scope.spawn(play(group.episodes[sample]));
      }
    }
    co_await scope.join();
    co_return batch;
  }

  Task<> step_finished(WeightsPtr weights) override {
    const Result<Done> done = co_await engine_.publish(std::move(weights));
    if (!done) throw internal_error(done.failure().message);
  }

  uint64_t next_ordinal() const override { return next_ordinal_; }
  std::vector<uint64_t> open_ordinals() const override { return {}; }

 private:
  Task<> play(EpisodeRecord& episode) {
    const uint64_t ordinal = episode.id.task_ordinal;
    GenerateRequest request{.stop = {.max_tokens = kNewTokens},
                            .stream = {.task_ordinal = ordinal, .sample = episode.id.sample}};
    for (uint64_t i = 0; i < kPromptTokens; ++i) {
      request.tokens.push_back(static_cast<int32_t>((ordinal * 37 + i * 11) % 512));
    }
    Trajectory& trajectory = episode.trajectory;
    trajectory.append(SpanKind::kPrompt, 0, request.tokens);
    trajectory.begin_sampled(0);
    TrajectorySink sink(trajectory);
    co_await generate_one(engine_, std::move(request), sink);
    trajectory.close_sampled(StopReason::kLength);
    episode.reward = even_share(trajectory);
  }

  Engine& engine_;
  uint64_t next_ordinal_ = 0;
};

NativeEngine make_engine(RealExecutor& executor, ComputePool& pool, const WeightsPtr& weights,
                         ComputeType type, bool prefix_cache) {
  return {executor, pool, weights, {.max_batch = 64, .prefix_cache = prefix_cache, .compute_type = type}};
}

// Every repetition computes its prompts.
void bench_sampling(FigureReport& report, const std::string& name, const WeightsPtr& weights,
                    ComputeType type, ComputePool& pool) {
  RealExecutor executor;
  NativeEngine engine = make_engine(executor, pool, weights, type, false);
  for (const int sequences : {1, 8, 64}) {
    const double seconds =
        best_seconds(1, [&] { run(executor, generate_all(engine, sequences, kPromptTokens, kNewTokens)); });
    report.add(fmt::format("{}_{}", name, sequences), sequences * kNewTokens / seconds, "tokens/s");
  }
  run(executor, engine.close());
}

// The fastest of some steps after two, and the parts of that step.
void bench_grpo(FigureReport& report, const std::string& name, const WeightsPtr& weights, ComputeType type,
                ComputePool& pool) {
  constexpr int kSteps = 10, kWarmUp = 2;
  RealExecutor executor;
  NativeEngine engine = make_engine(executor, pool, weights, type, true);
  cpu::CpuLearner learner(*weights, {}, weights->config().vocab_size, pool, type);
  SampledGroups source(engine);
  TrainerOptions options{.total_steps = kSteps, .exact_log_probabilities = true};
  options.train.optimizer = {.learning_rate = 1e-4, .schedule = "constant"};
  MetricMap best{{"step_time", 1e9}};
  TrainerParts parts{.learner = learner, .source = source};
  parts.on_step = [&best](int64_t step, const MetricMap& metrics) {
    if (metrics.at("version") != static_cast<double>(step)) throw internal_error("A step had no update.");
    if (step > kWarmUp && metrics.at("step_time") < best.at("step_time")) best = metrics;
  };
  Trainer trainer(options, parts, {});
  run(executor, trainer.run());
  run(executor, engine.close());
  report.add(name + "_step", 1 / best.at("step_time"), "1/s");
  report.add(name + "_rollout", 1e3 * best.at("time/wait_for_batch"), "ms");
  report.add(name + "_training", 1e3 * best.at("time/train"), "ms");
  report.add(name + "_publication", 1e3 * best.at("time/publish"), "ms");
}

void measure(FigureReport& report, const std::string& only) {
  ComputePool pool(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  const auto weights = std::make_shared<const Weights>(initialize_weights(small_model(), 1));
  for (const ComputeType type : {ComputeType::kFloat32, ComputeType::kBfloat16}) {
    const std::string sampling = fmt::format("qwen3_3m_{}_sampling", to_string(type));
    if (sampling.starts_with(only)) bench_sampling(report, sampling, weights, type, pool);
    const std::string grpo = fmt::format("qwen3_3m_{}_grpo", to_string(type));
    if (grpo.starts_with(only)) bench_grpo(report, grpo, weights, type, pool);
  }
}

}  // namespace
}  // namespace stoker

int main(int argument_count, char** arguments) {
  return stoker::bench_main_of_groups(argument_count, arguments, "grpo_bench", stoker::measure);
}
