#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "cli/failures_config.h"
#include "rollout/controller.h"
#include "rollout/episode.h"

namespace stoker {

// The `rollout` section of a run file: episodes, groups and the staleness contract.

// Above 0, at most 1.
Constraint share_above_zero();

struct SamplingConfig {
  double temperature = 1.0;
  double top_p = 1.0;
  int top_k = 0;
  double min_p = 0;

  template <typename V>
  void for_each_field(V& visit) {
    visit("temperature", temperature,
          "Of training episodes. 0 is greedy, which leaves nothing to learn from.", between(0, 100));
    visit("top_p", top_p, "Smallest set of tokens whose mass reaches it; 1: off.", share_above_zero());
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
  int extra_groups = 0;
  bool adaptive_depth = false;
  int64_t max_staleness = 8;
  std::string stale_action = "drop";
  std::string batch_order = "oldest";
  std::string update_boundary = "token";
  int max_attempts = 3;
  double retry_backoff_seconds = 1;
  std::string failed_members = "shrink";
  int max_refills = 2;
  int min_scored = 1;
  int max_task_failures = 0;
  double stall_seconds = 120;
  std::vector<double> reward_weights;
  SamplingConfig sampling;
  LimitsConfig limits;
  FailuresConfig failures;
  ToolLatency tool_latency;

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
          "Batches that dispatch may run ahead: the mean lag it leads to; 0 in mode sync.", at_least(0));
    visit(
        "extra_groups", extra_groups,
        "Groups that dispatch runs ahead beyond those. With max_ahead = 0, max_staleness = 0 and "
        "stale_action "
        "= cancel the first groups to end are trained and the rest is dropped: fast, and blind to long ones.",
        at_least(0));
    visit(
        "adaptive_depth", adaptive_depth,
        "Find the depth: the smallest, up to max_ahead, that keeps the scarcer of learner and engine busy.");
    visit("max_staleness", max_staleness,
          "The cap: no token is trained that is older than this many versions; see stale_action.",
          at_least(0));
    visit(
        "stale_action", stale_action,
        "At the cap: drop a finished group that is over it, cancel a running one too, let training wait for "
        "a running one before it gets there, or mask the tokens that are over it.",
        one_of({"drop", "cancel", "wait", "mask"}));
    visit("batch_order", batch_order,
          "The groups of a batch: those dispatched first of the finished ones, those finished first, or "
          "strictly the next ones in dispatch order.",
          one_of({"oldest", "completion", "strict"}));
    visit(
        "update_boundary", update_boundary,
        "When new weights reach episodes in flight: between two tokens; between two turns, so that each turn "
        "is of one version; or at a barrier, where no group starts and training waits until all have ended.",
        one_of({"token", "turn", "barrier"}));
    visit("max_attempts", max_attempts,
          "Tries of an episode whose tool, environment or infrastructure failed.", at_least(1));
    visit("retry_backoff_seconds", retry_backoff_seconds,
          "Wait before an episode is tried again; doubled for each further try, at most a minute.",
          between(0, 60));
    visit("failed_members", failed_members,
          "A group with members that failed for good: shrink, drop, or refill their places first.",
          one_of({"shrink", "drop", "refill"}));
    visit("max_refills", max_refills, "Places of one group that are refilled.", at_least(0));
    visit("min_scored", min_scored, "Groups that end with fewer scored members are dropped.", at_least(1));
    visit(
        "max_task_failures", max_task_failures,
        "A task of which so many tries failed, and none was scored, is set aside; 0: all that its group has.",
        at_least(0));
    visit("stall_seconds", stall_seconds,
          "Tell of episodes that do the same for so long: which, in which turn, what they await.",
          above_or_infinite(0));
    visit("reward_weights", reward_weights, "One weight for each reward of the environment; empty: all 1.");
    visit.section("sampling", sampling, "Sampling of training episodes.");
    visit.section("limits", limits, "Budgets and deadlines of one episode.");
    visit.section("failures", failures, "What a failure leads to, by its class.");
    visit.section("tool_latency", tool_latency, "A wait before each tool call of training episodes.");
  }
};
ControllerOptions controller_options(const RolloutConfig& config);

}  // namespace stoker
