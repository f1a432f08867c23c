#include "cli/rollout_config.h"

namespace stoker {

Constraint share_above_zero() { return {.minimum = 0, .maximum = 1, .minimum_excluded = true}; }

SamplingParameters sampling_parameters(const SamplingConfig& config) {
  return {.temperature = static_cast<float>(config.temperature),
          .top_k = config.top_k,
          .top_p = static_cast<float>(config.top_p),
          .min_p = static_cast<float>(config.min_p)};
}

FailurePolicy failure_policy(const FailuresConfig& config) {
  return {.tool = failure_action_from_name(config.tool),
          .environment = failure_action_from_name(config.environment),
          .infrastructure = failure_action_from_name(config.infrastructure),
          .reward = failure_action_from_name(config.reward),
          .limit = failure_action_from_name(config.limit)};
}

ControllerOptions controller_options(const RolloutConfig& config) {
  return {.total_steps = config.steps,
          .groups_per_batch = config.groups_per_step,
          .group_size = config.group_size,
          .max_concurrent_episodes = config.max_concurrent_episodes,
          .max_ahead = config.mode == "sync" ? 0 : config.max_ahead,
          .extra_groups = config.extra_groups,
          .adaptive_depth = config.adaptive_depth,
          .max_staleness = config.max_staleness,
          .stale_action = stale_action_from_name(config.stale_action),
          .batch_order = batch_order_from_name(config.batch_order),
          .update_boundary = update_boundary_from_name(config.update_boundary),
          .failures = failure_policy(config.failures),
          .max_attempts = config.max_attempts,
          .retry_backoff_seconds = config.retry_backoff_seconds,
          .failed_members = failed_member_policy_from_name(config.failed_members),
          .max_refills = config.max_refills,
          .min_scored = config.min_scored,
          .max_task_failures = config.max_task_failures > 0 ? config.max_task_failures
                                                            : config.group_size * config.max_attempts};
}

}  // namespace stoker
