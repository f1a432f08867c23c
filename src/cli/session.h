#pragma once

#include <memory>
#include <string>
#include <vector>

#include "async/compute_pool.h"
#include "async/pool.h"
#include "async/real_executor.h"
#include "cli/run_config.h"
#include "engine/native_engine.h"
#include "environment/registry.h"
#include "model/tensor_source.h"
#include "rollout/agent.h"
#include "rollout/episode.h"
#include "text/renderer.h"
#include "text/tokenizer.h"

namespace stoker {

// What the verbs of a run file share: the loop, the pools, the tokenizer and renderer, the model as it was
// loaded, the environment kind and the agent. Making one reads and checks everything that can be wrong before
// a run starts; what is wrong throws Error(kInput).
class Session {
 public:
  explicit Session(const RunConfig& config);

  RealExecutor& executor() { return executor_; }
  ComputePool& compute() { return compute_; }
  Pool& blocking() { return blocking_; }
  Pool& world() { return world_; }  // for blocking code of environments, tools and rewards
  const TokenizerPtr& tokenizer() const { return tokenizer_; }
  const Renderer& renderer() const { return *renderer_; }
  const WeightsPtr& weights() const { return weights_; }
  EnvironmentKind& environment() const { return *environment_; }
  Agent& agent() const { return *agent_; }
  int32_t vocabulary_size() const { return tokenizer_->vocabulary_size(); }

  // As the run file says, with the tokenizer.
  NativeEngineOptions engine_options() const;
  // An engine that serves `weights`. Must be closed on the loop before it dies.
  std::unique_ptr<NativeEngine> make_engine(const WeightsPtr& weights);

  // `activity` is told what the episodes do; may be null, must outlive them.
  std::unique_ptr<EpisodeRunner> training_runner(Engine& engine, RunActivity* activity = nullptr);
  std::unique_ptr<EpisodeRunner> evaluation_runner(Engine& engine, double temperature,
                                                   RunActivity* activity = nullptr);

 private:
  std::unique_ptr<EpisodeRunner> make_runner(Engine& engine, const SamplingParameters& sampling,
                                             RandomPurpose purpose, RunActivity* activity);

  RunConfig config_;
  RealExecutor executor_;
  ComputePool compute_;
  Pool blocking_;
  Pool world_;  // where environments, tools and rewards block; gives up on what never returns
  TokenizerPtr tokenizer_;
  std::unique_ptr<const Renderer> renderer_;
  WeightsPtr weights_;
  std::unique_ptr<EnvironmentKind> environment_;
  std::unique_ptr<Agent> agent_;
};

// Compute threads for a setting: itself, or one a core for 0.
int compute_threads(int setting);

// A bar on standard error for weights that take more than two seconds to load.
LoadProgress loading_bar(const std::string& title);

// Loads what a model directory or a GGUF file holds; throws Error(kInput) when the tokenizer has more tokens
// than the model.
WeightsPtr load_weights(const std::filesystem::path& directory, const Tokenizer& tokenizer);

}  // namespace stoker
