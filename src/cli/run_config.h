#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "cli/engine_config.h"
#include "cli/rollout_config.h"
#include "environment/command/outside_kind.h"
#include "environment/environment_config.h"
#include "train/options.h"

namespace stoker {

// The run file: every section that a verb may read. Sections whose values live in an area come from there.

struct ModelConfigSection {
  std::string path;
  std::string chat_template;
  std::string compute_type = "float32";

  template <typename V>
  void for_each_field(V& visit) {
    visit("path", path,
          "Model directory with config.json, model.safetensors and tokenizer.json, or a GGUF file.");
    visit(
        "chat_template", chat_template,
        "In place of the model's own chat template: a Jinja file, or chatml. Models that the run writes have "
        "it.");
    visit(
        "compute_type", compute_type,
        "In what weights, keys and values are computed with, by the sampler and the learner alike; sums and "
        "master weights are float32. bfloat16 takes half the memory and decodes large models faster.",
        one_of({"float32", "bfloat16"}));
  }
};

struct AgentConfig {
  std::string kind = "tool";
  std::string system_prompt;
  bool list_tools = true;
  double tool_timeout_seconds = 30;
  int max_parallel_calls = 8;
  int max_result_bytes = 16384;
  std::string keep_of_result = "start";
  std::string call_format = "hermes";

  template <typename V>
  void for_each_field(V& visit) {
    visit("kind", kind, "How turns are read: tool (calls are run) or conversation (the text is the answer).",
          one_of({"tool", "conversation"}));
    visit("system_prompt", system_prompt, "System message of conversations that bring none.");
    visit("list_tools", list_tools, "Write the tools' schemas into the system message.");
    visit("tool_timeout_seconds", tool_timeout_seconds, "Deadline of one tool call.", above_or_infinite(0));
    visit("max_parallel_calls", max_parallel_calls, "Calls of one turn that run side by side.", at_least(1));
    visit("max_result_bytes", max_result_bytes, "Longer tool results are cut.", at_least(16));
    visit("keep_of_result", keep_of_result, "Which part of a result that is cut the model sees.",
          one_of({"start", "end"}));
    visit("call_format", call_format,
          "How the model writes tool calls; 'stoker text parse --format list' explains.",
          one_of({"deepseek", "fenced_json", "gemma", "hermes", "llama3_json", "llama4_pythonic", "mistral",
                  "openai_json", "pythonic", "qwen3_coder"}));
  }
};

struct EvaluateConfig {
  int tasks = 256;
  int samples = 1;
  std::vector<double> temperatures = {0.0, 1.0};
  int max_concurrent_episodes = 256;
  double top_p = 1.0;
  int top_k = 0;
  double min_p = 0;

  template <typename V>
  void for_each_field(V& visit) {
    visit("tasks", tasks, "Held-out tasks, from the first.", at_least(1));
    visit("samples", samples, "Episodes a task: pass@k is estimated for k up to it.", at_least(1));
    visit("temperatures", temperatures,
          "Each is evaluated by itself; 0 is greedy. The last one picks the best checkpoint.",
          between(0, 100));
    visit("max_concurrent_episodes", max_concurrent_episodes, "Evaluation episodes that run at once.",
          at_least(1));
    visit("top_p", top_p, "As in rollout.sampling.", share_above_zero());
    visit("top_k", top_k, "As in rollout.sampling.", at_least(0));
    visit("min_p", min_p, "As in rollout.sampling.", between(0, 1));
  }
};

struct RunConfig {
  std::string output = "runs/run";
  int64_t seed = 1;
  int threads = 0;
  int64_t memory_megabytes = 0;
  std::string recompute = "auto";
  int metrics_port = 0;
  ModelConfigSection model;
  AgentConfig agent;
  EnvironmentConfig environment;
  ToolsOptions tools;
  RewardOptions reward;
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
    visit("threads", threads, "Compute threads; 0: one a core. Results do not depend on it.",
          between(0, kMostThreads));
    visit("memory_megabytes", memory_megabytes,
          "Memory that the run may plan with, its model included; 0: what the machine has left.",
          at_least(0));
    visit("recompute", recompute,
          "What of a training pass's activations is computed again in its backward half instead of kept, to "
          "the same bits: none, attention (Q, K, V and attention), layer (all but the input of each layer), "
          "or auto: the first of these with which the run fits its memory.",
          one_of({"auto", "none", "attention", "layer"}));
    visit("metrics_port", metrics_port,
          "Serve the last step's metrics to Prometheus at http://127.0.0.1:PORT/metrics; 0: do not.",
          between(0, 65535));
    visit.section("model", model, "The model that is trained.");
    visit.section("agent", agent, "How the model's turns are read and shown the world.");
    visit.section("environment", environment, "Tasks, tools and rewards.");
    visit.section("tools", tools, "Tools from outside, beside those of the environment.");
    visit.section("reward", reward, "Rewards from outside, beside those of the environment.");
    visit.section("engine", engine, "Generation.");
    visit.section("rollout", rollout, "Episodes, groups and the staleness contract.");
    visit.section("train", train, "The learner.");
    visit.section("evaluate", evaluate, "Evaluation on held-out tasks.");
    visit.section("checkpoint", checkpoint, "Checkpoints.");
    visit.section("sft", sft, "Supervised fine-tuning (stoker sft).");
  }
};

}  // namespace stoker
