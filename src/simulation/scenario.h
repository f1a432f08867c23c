#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/config.h"
#include "rollout/controller.h"
#include "rollout/latency_law.h"
#include "simulation/processor_sharing_engine.h"

namespace stoker {

// A simulated training run: what the work is like, what the machines can do, and how the controller is set.
// The defaults are the latency-bound regime R1 of docs/simulation.md.
struct Scenario {
  LatencyLaw law;
  double sample_cv = 0.25;
  double growth = 1;
  double tool_failure_share = 0;
  int turns = 4;
  double tokens = 4000;
  double tool_seconds = 30;

  double engine_tokens_per_second = 17066;
  double sequence_tokens_per_second = 60;
  double train_seconds = 60;
  double publish_seconds = 5;

  int groups_per_step = 32;
  int group_size = 8;
  int max_concurrent_episodes = 512;
  int max_ahead = 4;
  int extra_groups = 0;
  bool adaptive_depth = false;
  int64_t max_staleness = 1 << 20;
  std::string stale_action = "drop";
  std::string batch_order = "oldest";
  std::string update_boundary = "token";
  std::string on_update = "keep";
  double prefill_tokens_per_second = 150'000;

  int64_t steps = 230;
  int64_t warm_up_steps = 30;
  bool endless = false;
  int64_t seed = 1;

  template <typename V>
  void for_each_field(V& visit) {
    visit.section("law", law, "How long episodes are, against each other.");
    visit("sample_cv", sample_cv, "Coefficient of variation between the episodes of a group.", at_least(0));
    visit("growth", growth, "Mean scale at the end of the run over that at its beginning: it drifts.",
          above(0));
    visit("tool_failure_share", tool_failure_share, "Tool calls that fail; the episode is tried again.",
          between(0, 1));
    visit("turns", turns, "Turns of an episode, each of generation and then a tool.", at_least(1));
    visit("tokens", tokens, "Sampled tokens of an episode of scale 1.", at_least(1));
    visit("tool_seconds", tool_seconds, "Seconds in tools of an episode of scale 1.", at_least(0));
    visit("engine_tokens_per_second", engine_tokens_per_second, "Capacity of the engine.", above(0));
    visit("sequence_tokens_per_second", sequence_tokens_per_second, "Most that one sequence gets of it.",
          above(0));
    visit("train_seconds", train_seconds, "Seconds of one training step.", above(0));
    visit("publish_seconds", publish_seconds, "Seconds in which new weights stop the engine.", at_least(0));
    visit("groups_per_step", groups_per_step, "Groups (tasks) of one step.", at_least(1));
    visit("group_size", group_size, "Episodes of one group.", at_least(1));
    visit("max_concurrent_episodes", max_concurrent_episodes, "Episodes that run at once.", at_least(1));
    visit("max_ahead", max_ahead, "Batches that dispatch may run ahead of training; 0: synchronous.",
          at_least(0));
    visit("extra_groups", extra_groups, "Groups that dispatch may run ahead beyond those batches.",
          at_least(0));
    visit("adaptive_depth", adaptive_depth,
          "Find the smallest depth, up to max_ahead, that keeps the scarcer of trainer and engine busy.");
    visit("max_staleness", max_staleness, "The cap: no token is trained that is older.", at_least(0));
    visit("stale_action", stale_action, "What happens at the cap.",
          one_of({"drop", "cancel", "wait", "mask"}));
    visit("batch_order", batch_order, "The groups of a batch.", one_of({"oldest", "completion", "strict"}));
    visit("update_boundary", update_boundary, "When new weights reach episodes in flight.",
          one_of({"token", "turn", "barrier"}));
    visit("on_update", on_update,
          "What new weights do to episodes in flight: keep their cache, recompute it, which stops the engine "
          "longer, or restart them from their first turn.",
          one_of({"keep", "recompute", "restart"}));
    visit("prefill_tokens_per_second", prefill_tokens_per_second,
          "Speed of the engine in contexts that new weights make it recompute.", above(0));
    visit("steps", steps, "Steps of the run, those before the measurement included.", at_least(1));
    visit("warm_up_steps", warm_up_steps, "Steps before the measurement begins.", at_least(0));
    visit(
        "endless", endless,
        "The run goes on behind its steps, so that nothing is measured of its end: else the last steps wait "
        "for the longest episodes, since no work is left to run beside them.");
    visit("seed", seed, "Of the work and of the schedule.", at_least(0));
  }
};

// Reads a TOML file (empty: the defaults) and key=value overrides. Throws Error(kInput) naming file, line and
// key, also for values that do not fit together.
Scenario read_scenario(const std::filesystem::path& file, const std::vector<std::string>& assignments);

ControllerOptions controller_options(const Scenario& scenario);
ProcessorSharingOptions engine_options(const Scenario& scenario);

// Trajectories per hour that no controller can exceed, by what is scarce: for work of the mean length of the
// measured steps, of which law.time_out cuts nothing.
struct Ceilings {
  double trainer = 0;  // one batch a training step and publication
  double engine = 0;   // all tokens at full capacity, stopped in publications
  double slots = 0;    // every slot always with an episode at an idle engine's speed
  double lowest() const { return std::min({trainer, engine, slots}); }
};
Ceilings ceilings(const Scenario& scenario);

}  // namespace stoker
