#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "environment/environment_config.h"
#include "rollout/controller.h"
#include "rollout/episode.h"
#include "train/options.h"

namespace stoker {

// The run file: every section that a verb may read. Sections whose values live in an area come from there.

struct ModelConfigSection {
  std::string path;

  template <typename V>
  void for_each_field(V& visit) {
    visit("path", path, "Model directory with config.json, model.safetensors and tokenizer.json.");
  }
};

struct AgentConfig {
  std::string kind = "tool";
  std::string system_prompt;
  bool list_tools = true;
  double tool_timeout_seconds = 30;
  int max_parallel_calls = 8;
  int max_result_bytes = 16384;

  template <typename V>
  void for_each_field(V& visit) {
    visit("kind", kind, "How turns are read: tool (calls are run) or conversation (the text is the answer).",
          one_of({"tool", "conversation"}));
    visit("system_prompt", system_prompt, "System message of conversations that bring none.");
    visit("list_tools", list_tools, "Write the tools' schemas into the system message.");
    visit("tool_timeout_seconds", tool_timeout_seconds, "Deadline of one tool call.", above_or_infinite(0));
    visit("max_parallel_calls", max_parallel_calls, "Calls of one turn that run side by side.", at_least(1));
    visit("max_result_bytes", max_result_bytes, "Longer tool results are cut.", at_least(16));
  }
};

struct EngineConfig {
  int max_batch = 256;
  int cache_megabytes = 512;
  int prefill_tokens = 512;

  template <typename V>
  void for_each_field(V& visit) {
    visit("max_batch", max_batch, "Sequences that decode together.", at_least(1));
    visit("cache_megabytes", cache_megabytes, "Memory of the key-value cache.", at_least(1));
    visit("prefill_tokens", prefill_tokens,
          "Context tokens computed in one step beside the decoding sequences.", at_least(1));
  }
};

struct SamplingConfig {
  double temperature = 1.0;
  double top_p = 1.0;
  int top_k = 0;
  double min_p = 0;

  template <typename V>
  void for_each_field(V& visit) {
    visit("temperature", temperature,
          "Of training episodes. 0 is greedy, which leaves nothing to learn from.", between(0, 100));
    visit("top_p", top_p, "Smallest set of tokens whose mass reaches it; 1: off.", between(0, 1));
    visit("top_k", top_k, "The k likeliest tokens; 0: off.", at_least(0));
    visit("min_p", min_p, "Tokens of at least this share of the likeliest's probability; 0: off.",
          between(0, 1));
  }
};
SamplingParameters sampling_parameters(const SamplingConfig& config);

struct LimitsConfig {
  EpisodeLimits limits;

  template <typename V>
  void for_each_field(V& visit) {
    visit("max_turns", limits.max_turns, "Turns of the model in one episode.", at_least(1));
    visit("max_turn_tokens", limits.max_turn_tokens, "Sampled tokens of one turn.", at_least(1));
    visit("max_sampled_tokens", limits.max_sampled_tokens, "Sampled tokens of one episode.", at_least(1));
    visit("max_observation_tokens", limits.max_observation_tokens,
          "Tokens of tools and environment in one episode.", at_least(1));
    visit("max_context_tokens", limits.max_context_tokens, "Longest context; 0: the model's own.",
          at_least(0));
    visit("reset_timeout_seconds", limits.reset_timeout_seconds, "Deadline of an environment's reset.",
          above_or_infinite(0));
    visit("step_timeout_seconds", limits.step_timeout_seconds, "Deadline of an environment's step.",
          above_or_infinite(0));
    visit("generate_timeout_seconds", limits.generate_timeout_seconds, "Deadline of one turn's generation.",
          above_or_infinite(0));
    visit("reward_timeout_seconds", limits.reward_timeout_seconds, "Deadline of one reward.",
          above_or_infinite(0));
    visit("close_timeout_seconds", limits.close_timeout_seconds, "Deadline of an environment's close.",
          above_or_infinite(0));
    visit("episode_timeout_seconds", limits.episode_timeout_seconds, "Deadline of a whole episode.",
          above_or_infinite(0));
  }
};

struct RolloutConfig {
  std::string mode = "async";
  int64_t steps = 40;
  int groups_per_step = 32;
  int group_size = 8;
  int max_concurrent_episodes = 256;
  int max_ahead = 1;
  int64_t max_staleness = 8;
  int max_attempts = 3;
  std::string failed_members = "shrink";
  std::vector<double> reward_weights;
  SamplingConfig sampling;
  LimitsConfig limits;

  template <typename V>
  void for_each_field(V& visit) {
    visit("mode", mode, "async: dispatch runs max_ahead batches ahead of training; sync: not at all.",
          one_of({"sync", "async"}));
    visit("steps", steps, "Optimizer steps of the run.", at_least(1));
    visit("groups_per_step", groups_per_step, "Groups (tasks) of one step.", at_least(1));
    visit("group_size", group_size, "Episodes of one group.", at_least(2));
    visit("max_concurrent_episodes", max_concurrent_episodes,
          "Episodes that run at once; at least one group's.", at_least(1));
    visit("max_ahead", max_ahead,
          "Batches that dispatch may run ahead of training: the mean lag it leads to.", at_least(0));
    visit("max_staleness", max_staleness,
          "A group with a token older than this many versions is dropped at training.", at_least(0));
    visit("max_attempts", max_attempts,
          "Tries of an episode whose tool, environment or infrastructure failed.", at_least(1));
    visit("failed_members", failed_members, "A group with members that failed for good: shrink or drop.",
          one_of({"shrink", "drop"}));
    visit("reward_weights", reward_weights, "One weight for each reward of the environment; empty: all 1.");
    visit.section("sampling", sampling, "Sampling of training episodes.");
    visit.section("limits", limits, "Budgets and deadlines of one episode.");
  }
};
ControllerOptions controller_options(const RolloutConfig& config);

struct EvaluateConfig {
  int tasks = 256;
  int samples = 1;
  std::vector<double> temperatures = {0.0, 1.0};
  int max_concurrent_episodes = 256;
  double top_p = 1.0;
  int top_k = 0;

  template <typename V>
  void for_each_field(V& visit) {
    visit("tasks", tasks, "Held-out tasks, from the first.", at_least(1));
    visit("samples", samples, "Episodes a task: pass@k is estimated for k up to it.", at_least(1));
    visit("temperatures", temperatures,
          "Each is evaluated by itself; 0 is greedy. The last one picks the best checkpoint.",
          between(0, 100));
    visit("max_concurrent_episodes", max_concurrent_episodes, "Evaluation episodes that run at once.",
          at_least(1));
    visit("top_p", top_p, "As in rollout.sampling.", between(0, 1));
    visit("top_k", top_k, "As in rollout.sampling.", at_least(0));
  }
};

struct RunConfig {
  std::string output = "runs/run";
  int64_t seed = 1;
  int threads = 0;
  ModelConfigSection model;
  AgentConfig agent;
  EnvironmentConfig environment;
  EngineConfig engine;
  RolloutConfig rollout;
  TrainConfig train;
  EvaluateConfig evaluate;
  CheckpointConfig checkpoint;
  SftConfig sft;

  template <typename V>
  void for_each_field(V& visit) {
    visit("output", output, "Run folder.");
    visit("seed", seed, "Seed of everything random in the run.", at_least(0));
    visit("threads", threads, "Compute threads; 0: one a core. Results do not depend on it.", at_least(0));
    visit.section("model", model, "The model that is trained.");
    visit.section("agent", agent, "How the model's turns are read and shown the world.");
    visit.section("environment", environment, "Tasks, tools and rewards.");
    visit.section("engine", engine, "Generation.");
    visit.section("rollout", rollout, "Episodes, groups and the staleness contract.");
    visit.section("train", train, "The learner.");
    visit.section("evaluate", evaluate, "Evaluation on held-out tasks.");
    visit.section("checkpoint", checkpoint, "Checkpoints.");
    visit.section("sft", sft, "Supervised fine-tuning (stoker sft).");
  }
};

}  // namespace stoker
