#include "cli/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "async/run.h"
#include "base/error.h"
#include "cli/model_path.h"
#include "cli/model_renderer.h"
#include "model/gguf_tokenizer.h"
#include "model/model_directory.h"
#include "observe/progress_bar.h"

namespace stoker {
namespace {

std::filesystem::path checked_model_path(const RunConfig& config) {
  check_model_path(config.model.path, "model.path");
  return config.model.path;
}

std::unique_ptr<Agent> make_agent(const AgentConfig& config, const FailuresConfig& failures) {
  if (config.kind == "conversation") return make_conversation_agent();
  return make_tool_agent({.tool_timeout_seconds = config.tool_timeout_seconds,
                          .max_parallel_calls = config.max_parallel_calls,
                          .max_result_bytes = config.max_result_bytes,
                          .keep_end_of_result = config.keep_of_result == "end",
                          .show_failures = failures.tool == "show",
                          .call_format = config.call_format});
}

}  // namespace

int compute_threads(int setting) {
  return setting > 0 ? setting : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

LoadProgress loading_bar(const std::string& title) {
  struct Bar {
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    std::optional<ProgressBar> bar;
  };
  return [title, state = std::make_shared<Bar>()](int64_t done, int64_t total) {
    constexpr double kQuietSeconds = 2;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - state->start;
    if (!state->bar && passed.count() > kQuietSeconds && done < total) {
      state->bar = ProgressBar::on_standard_error(title, total);
    }
    if (!state->bar) return;
    state->bar->update(done, passed.count());
    if (done == total) state->bar->clear();
  };
}

WeightsPtr load_weights(const std::filesystem::path& directory, const Tokenizer& tokenizer) {
  auto weights = std::make_shared<Weights>(load_model_weights(directory, loading_bar("loading")));
  if (tokenizer.vocabulary_size() > weights->config().vocab_size) {
    throw input_error(
        fmt::format("The tokenizer in {} has {} tokens, but the model's vocab_size is {}; they do not "
                    "belong together.",
                    directory.string(), tokenizer.vocabulary_size(), weights->config().vocab_size));
  }
  return weights;
}

Session::Session(const RunConfig& config)
    : config_(config),
      compute_(compute_threads(config.threads)),
      blocking_({.threads = 4, .name = "blocking"}),
      world_({.threads = 16, .name = "world", .abandon_after = std::chrono::seconds(2)}),
      tokenizer_(load_tokenizer(checked_model_path(config))),
      renderer_(make_model_renderer(
          config.model.path, chosen_chat_template(config.model.chat_template, "model.chat_template"),
          tokenizer_,
          {.default_system_prompt = config.agent.system_prompt, .list_tools = config.agent.list_tools})),
      weights_(load_weights(config.model.path, *tokenizer_)),
      environment_(with_outside(make_environment_kind(config.environment), config.tools, config.reward)),
      agent_(make_agent(config.agent, config.rollout.failures)) {
  run(executor_, environment_->open(), {}, "open the environment");
}

NativeEngineOptions Session::engine_options() const {
  return {.max_batch = config_.engine.max_batch,
          .max_cache_bytes = int64_t{config_.engine.cache_megabytes} << 20,
          .prefill_chunk = config_.engine.prefill_tokens,
          .prefix_cache = config_.engine.prefix_cache,
          .recompute_cache = config_.engine.cache_on_update == "recompute",
          .compute_type = compute_type(config_.model.compute_type),
          .vocabulary_size = vocabulary_size(),
          .tokenizer = tokenizer_};
}

std::unique_ptr<NativeEngine> Session::make_engine(const WeightsPtr& weights) {
  return std::make_unique<NativeEngine>(executor_, compute_, weights, engine_options());
}

std::unique_ptr<EpisodeRunner> Session::make_runner(Engine& engine, const SamplingParameters& sampling,
                                                    RandomPurpose purpose, RunActivity* activity) {
  EpisodeSettings settings{.sampling = sampling,
                           .limits = config_.rollout.limits.limits,
                           .failures = failure_policy(config_.rollout.failures),
                           .run_seed = static_cast<uint64_t>(config_.seed),
                           .purpose = purpose,
                           .activity = activity};
  // A success rate is of all episodes, so that its mean does not hang on what training leaves out.
  if (purpose == RandomPurpose::kEvaluate) settings.failures.limit = FailureAction::kScore;
  if (purpose == RandomPurpose::kTrain) settings.tool_latency = config_.rollout.tool_latency;
  if (settings.limits.max_context_tokens == 0) {
    settings.limits.max_context_tokens = weights_->config().max_position_embeddings;
  }
  std::vector<double> weights = config_.rollout.reward_weights;
  if (weights.empty()) weights = environment_->reward_weights();
  return std::make_unique<EpisodeRunner>(settings, engine, *environment_, *agent_, tokenizer_, *renderer_,
                                         world_, environment_->rewards(), std::move(weights));
}

std::unique_ptr<EpisodeRunner> Session::training_runner(Engine& engine, RunActivity* activity) {
  return make_runner(engine, sampling_parameters(config_.rollout.sampling), RandomPurpose::kTrain, activity);
}

std::unique_ptr<EpisodeRunner> Session::evaluation_runner(Engine& engine, double temperature,
                                                          RunActivity* activity) {
  SamplingParameters sampling{.temperature = static_cast<float>(temperature),
                              .top_k = config_.evaluate.top_k,
                              .top_p = static_cast<float>(config_.evaluate.top_p),
                              .min_p = static_cast<float>(config_.evaluate.min_p)};
  return make_runner(engine, sampling, RandomPurpose::kEvaluate, activity);
}

}  // namespace stoker
