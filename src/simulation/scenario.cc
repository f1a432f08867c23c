#include "simulation/scenario.h"

#include <fmt/core.h>

#include "base/error.h"

namespace stoker {

Scenario read_scenario(const std::filesystem::path& file, const std::vector<std::string>& assignments) {
  Scenario scenario;
  ConfigReader reader(scenario);
  if (!file.empty()) reader.read_file(file);
  for (const std::string& assignment : assignments) reader.set(assignment);
  if (scenario.warm_up_steps >= scenario.steps) {
    throw input_error(
        fmt::format("warm_up_steps is {} and steps is {}: nothing is left to measure; raise steps.",
                    scenario.warm_up_steps, scenario.steps));
  }
  if (scenario.max_staleness < scenario.max_ahead) {
    throw input_error(fmt::format(
        "max_staleness is {}, below max_ahead {}: the groups that dispatch runs ahead with would all "
        "be over the cap; raise max_staleness.",
        scenario.max_staleness, scenario.max_ahead));
  }
  Controller check(controller_options(scenario));
  return scenario;
}

ControllerOptions controller_options(const Scenario& scenario) {
  return {.total_steps = scenario.steps,
          .groups_per_batch = scenario.groups_per_step,
          .group_size = scenario.group_size,
          .max_concurrent_episodes = scenario.max_concurrent_episodes,
          .max_ahead = scenario.max_ahead,
          .extra_groups = scenario.extra_groups,
          .adaptive_depth = scenario.adaptive_depth,
          .max_staleness = scenario.max_staleness,
          .stale_action = stale_action_from_name(scenario.stale_action),
          .batch_order = batch_order_from_name(scenario.batch_order),
          .update_boundary = update_boundary_from_name(scenario.update_boundary)};
}

ProcessorSharingOptions engine_options(const Scenario& scenario) {
  return {.tokens_per_second = scenario.engine_tokens_per_second,
          .sequence_tokens_per_second = scenario.sequence_tokens_per_second,
          .publish_seconds = scenario.publish_seconds,
          .prefill_tokens_per_second =
              scenario.on_update == "recompute" ? scenario.prefill_tokens_per_second : 0};
}

Ceilings ceilings(const Scenario& scenario) {
  const double batch = static_cast<double>(scenario.groups_per_step) * scenario.group_size;
  const double warm_up = static_cast<double>(scenario.warm_up_steps) / static_cast<double>(scenario.steps);
  const double scale = 1 + (scenario.growth - 1) * (1 + warm_up) / 2;  // its mean over the measured steps
  const double per_hour = 3600;
  const double unloaded = scenario.tokens / scenario.sequence_tokens_per_second + scenario.tool_seconds;
  return {.trainer = per_hour * batch / (scenario.train_seconds + scenario.publish_seconds),
          .engine = per_hour * batch /
                    (batch * scale * scenario.tokens / scenario.engine_tokens_per_second +
                     scenario.publish_seconds),
          .slots = per_hour * scenario.max_concurrent_episodes / (scale * unloaded)};
}

}  // namespace stoker
