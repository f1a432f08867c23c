#pragma once

#include <cstdint>
#include <string>

#include "algorithm/policy_loss.h"
#include "base/config.h"
#include "compute/learner.h"
#include "compute/learning_rate.h"
#include "train/batch_builder.h"

namespace stoker {

// The sections of a run file that belong to training. Names of choices are checked when they are read.

// AdamW and its learning rate over the steps of a phase.
struct OptimizerConfig {
  double learning_rate = 5e-4;
  std::string schedule = "linear";
  int64_t warmup_steps = 0;
  double final_fraction = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double max_gradient_norm = 1.0;

  template <typename V>
  void for_each_field(V& visit) {
    visit("learning_rate", learning_rate, "Peak learning rate of AdamW.", at_least(0));
    visit("schedule", schedule,
          "How the learning rate falls from its peak to final_fraction of it at the last step.",
          one_of({"constant", "linear", "cosine"}));
    visit("warmup_steps", warmup_steps, "Steps over which the learning rate rises linearly to its peak.",
          at_least(0));
    visit("final_fraction", final_fraction, "Learning rate at the last step as a share of the peak.",
          between(0, 1));
    visit("beta1", beta1, "Decay of the first moment.", between(0, 0.999999));
    visit("beta2", beta2, "Decay of the second moment.", between(0, 0.999999));
    visit("epsilon", epsilon, "Added to the root of the second moment.", above(0));
    visit("weight_decay", weight_decay, "Decoupled weight decay of matrices; norms and biases have none.",
          at_least(0));
    visit("max_gradient_norm", max_gradient_norm, "Gradients are scaled down to this global norm; 0: never.",
          at_least(0));
  }
};
OptimizerOptions optimizer_options(const OptimizerConfig& config);
LearningRateSchedule learning_rate_schedule(const OptimizerConfig& config, int64_t total_steps);

// From rewards to one coefficient a token.
struct AlgorithmConfig {
  std::string advantage_scale = "group";
  double advantage_epsilon = 1e-4;
  double clip_low = 0.2;
  double clip_high = 0.28;
  std::string loss_aggregation = "token-mean";
  std::string zero_variance = "skip";
  bool mask_truncated = false;
  bool permute_rewards = false;

  template <typename V>
  void for_each_field(V& visit) {
    visit("advantage_scale", advantage_scale,
          "What a reward less its group's mean is divided by: the group's standard deviation (GRPO), the "
          "batch's, or "
          "nothing (Dr. GRPO).",
          one_of({"group", "batch", "none"}));
    visit("advantage_epsilon", advantage_epsilon, "Added to that standard deviation.", above(0));
    visit("clip_low", clip_low, "The policy ratio is clipped below 1 - clip_low.", between(0, 1));
    visit("clip_high", clip_high, "The policy ratio is clipped above 1 + clip_high (DAPO's clip-higher).",
          at_least(0));
    visit("loss_aggregation", loss_aggregation,
          "Mean over all tokens of the batch, or over each episode's tokens and then over episodes.",
          one_of({"token-mean", "sequence-mean"}));
    visit("zero_variance", zero_variance,
          "Groups with equal rewards: skip (no forward pass, their tokens stay in the denominator), train, "
          "or drop "
          "(out of the denominator too).",
          one_of({"skip", "train", "drop"}));
    visit("mask_truncated", mask_truncated,
          "Episodes cut at a limit carry no loss; their reward still counts in their group.");
    visit("permute_rewards", permute_rewards,
          "A control experiment: each step's rewards are handed to its episodes at random.");
  }
};
// `temperature` is the sampling temperature of the episodes.
BatchBuilderOptions batch_builder_options(const AlgorithmConfig& config, double temperature,
                                          int64_t micro_batch_tokens);
PolicyLossOptions policy_loss_options(const AlgorithmConfig& config);

struct CheckpointConfig {
  int64_t every_steps = 10;
  int64_t keep_last = 2;
  bool keep_best = true;

  template <typename V>
  void for_each_field(V& visit) {
    visit("every_steps", every_steps, "Steps between checkpoints; 0: only at the end and when interrupted.",
          at_least(0));
    visit("keep_last", keep_last, "Checkpoints that are kept, counted from the last.", at_least(1));
    visit("keep_best", keep_best, "Keep the model with the best evaluation under checkpoints/best.");
  }
};

// The learner's side of reinforcement learning. How many steps there are and what a batch is made of is the
// rollout section's.
struct TrainConfig {
  OptimizerConfig optimizer;
  AlgorithmConfig algorithm;
  int64_t micro_batch_tokens = 16384;
  int64_t evaluate_every = 10;
  bool evaluate_at_start = true;
  bool evaluate_at_end = true;
  bool evaluate_after_run = false;

  template <typename V>
  void for_each_field(V& visit) {
    visit.section("optimizer", optimizer, "AdamW of the policy.");
    visit.section("algorithm", algorithm, "GRPO.");
    visit("micro_batch_tokens", micro_batch_tokens,
          "Tokens of one forward and backward pass; a longer episode is a pass by itself.", at_least(1));
    visit("evaluate_every", evaluate_every, "Steps between evaluations; 0: none in between.", at_least(0));
    visit("evaluate_at_start", evaluate_at_start, "Evaluate before the first step.");
    visit("evaluate_at_end", evaluate_at_end, "Evaluate after the last step.");
    visit("evaluate_after_run", evaluate_after_run,
          "Keep what is to be evaluated in memory until training has ended, which then has the machine to "
          "itself; no best checkpoint is kept.");
  }
};

// Supervised fine-tuning.
struct SftConfig {
  OptimizerConfig optimizer{
      .learning_rate = 2e-3, .schedule = "cosine", .warmup_steps = 20, .weight_decay = 0.01};
  std::string conversations;
  int64_t steps = 900;
  int64_t batch_size = 8;
  int64_t micro_batch_tokens = 16384;
  double stop_loss = 0;
  int64_t stop_window = 50;
  int64_t minimum_steps = 0;

  template <typename V>
  void for_each_field(V& visit) {
    visit.section("optimizer", optimizer, "AdamW.");
    visit("conversations", conversations,
          "JSON Lines file with `messages` a row; empty: the environment's demonstrations.");
    visit("steps", steps, "Optimizer steps.", at_least(1));
    visit("batch_size", batch_size, "Conversations a step.", at_least(1));
    visit("micro_batch_tokens", micro_batch_tokens,
          "Tokens of one forward and backward pass; a longer conversation is a pass by itself.", at_least(1));
    visit("stop_loss", stop_loss,
          "End early once the mean loss of the last stop_window steps is below this; 0: never.", at_least(0));
    visit("stop_window", stop_window, "Steps over which the loss is averaged for stop_loss.", at_least(1));
    visit("minimum_steps", minimum_steps, "Steps before which stop_loss ends nothing.", at_least(0));
  }
};

}  // namespace stoker
