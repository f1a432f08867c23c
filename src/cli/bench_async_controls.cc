#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "cli/bench_async_checks.h"
#include "cli/command.h"
#include "simulation/protocol_controls.h"

namespace stoker {
namespace {

// What is played for the controls, all regimes, laws and seeds together.
struct Controls {
  int64_t synchronous_runs = 0, not_plain = 0;  // C1
  int64_t arms = 0, other_arms = 0;             // C2
  double little = 0;                            // C3
  double synchronous_step = 0;                  // C4
  double of_ceiling = 0;                        // C5
  double relabelled = 0;                        // C6
};

// Steps of the runs that are compared episode by episode.
constexpr int64_t kComparedSteps = 40;

// Depths at which nothing is dropped, whose lag is that of Little's law.
std::optional<int> plain_depth(const std::string& arm) {
  if (arm == "eta 1") return 1;
  if (arm == "eta 2") return 2;
  if (arm == "eta 4") return 4;
  return std::nullopt;
}

void check_long_runs(const std::string& name, const Scenario& base, Parallel& parallel, Controls& controls) {
  const std::vector<Arm> arms = protocol_arms();
  std::vector<SimulationResult> results(arms.size());
  parallel.for_each(static_cast<int>(arms.size()), [&](int arm) {
    const auto index = static_cast<size_t>(arm);
    const bool needed = name != "R3" || plain_depth(arms[index].name);
    if (index > 0 && needed) results[index] = simulate(arms[index].apply(base));
  });
  for (size_t arm = 1; arm < arms.size(); ++arm) {  // the first has twice the engine: its ceiling is another
    if (const std::optional<int> depth = plain_depth(arms[arm].name)) {
      controls.little = std::max(controls.little, little_difference(results[arm], *depth));
    }
    if (name == "R3") continue;
    controls.of_ceiling =
        std::max(controls.of_ceiling, results[arm].trajectories_per_hour / ceilings(base).trainer);
  }
}

void check_names(const Scenario& base, Parallel& parallel, Controls& controls) {
  const std::vector<Arm> arms = protocol_arms();
  std::vector<double> differences(arms.size());
  parallel.for_each(static_cast<int>(arms.size()), [&](int arm) {
    const auto index = static_cast<size_t>(arm);
    differences[index] = relabelling_difference(arms[index].apply(base));
  });
  controls.relabelled = std::max(controls.relabelled, *std::ranges::max_element(differences));
}

void check_scenario(const std::string& name, Scenario scenario, Parallel& parallel, Controls& controls) {
  check_long_runs(name, scenario, parallel, controls);
  if (name == "R1") {
    controls.synchronous_step = std::max(controls.synchronous_step, synchronous_step_difference(scenario));
  }
  scenario.steps = kComparedSteps;
  ++controls.synchronous_runs;
  if (!is_plain_synchronous(scenario)) ++controls.not_plain;
  controls.arms += static_cast<int64_t>(protocol_arms().size());
  controls.other_arms += arms_that_play_others(protocol_arms(), scenario, parallel);
  check_names(scenario, parallel, controls);
}

}  // namespace

std::string check_controls(const BenchAsyncArguments& arguments, FigureReport& report) {
  ThreadTeam team(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  Controls controls;
  for (const std::string& name : arguments.regimes) {
    for (const NamedLaw& law : protocol_laws()) {
      for (int64_t seed = 1; seed <= arguments.seeds; ++seed) {
        Scenario scenario = law.apply(regime(name));
        scenario.steps = arguments.steps;
        scenario.endless = true;
        scenario.seed = seed;
        check_scenario(name, scenario, team, controls);
      }
    }
  }
  std::string text = fmt::format(
      "Controls of the protocol, the worst of {} regimes, {} laws and {} seeds; {} steps, 30 of them "
      "warm-up; "
      "C1, C2 and C6 over {} steps.\n\n| control | what must hold | found |\n|---|---|---|\n",
      arguments.regimes.size(), protocol_laws().size(), arguments.seeds, arguments.steps, kComparedSteps);
  const auto add = [&](const char* control, const char* what, const char* figure, double value,
                       const char* unit, const std::string& found) {
    text += fmt::format("| {} | {} | {} |\n", control, what, found);
    report.add(figure, value, unit);
  };
  add("C1", "depth 0 decides and trains what a synchronous loop does, in its order", "C1/runs_of_other_order",
      static_cast<double>(controls.not_plain), "runs",
      fmt::format("{} of {} runs do not", controls.not_plain, controls.synchronous_runs));
  add("C2", "with frozen weights every arm plays and trains the same episodes", "C2/arms_of_other_episodes",
      static_cast<double>(controls.other_arms), "arms",
      fmt::format("{} of {} arms do not", controls.other_arms, controls.arms));
  add("C3", "the mean lag is what is outstanding, and that is the depth wherever a slot was free",
      "C3/lag_most_off", controls.little, "share",
      fmt::format("{:.2f} % off at most", 100 * controls.little));
  add("C4", "a synchronous step of R1 is its longest episode, training and publication", "C4/step_most_off",
      controls.synchronous_step, "share",
      fmt::format("{:.4f} % off at most", 100 * controls.synchronous_step));
  add("C5", "in R1 and R2 no arm passes the trainer's ceiling", "C5/largest_of_ceiling", controls.of_ceiling,
      "share", fmt::format("{:.3f} % of it at most", 100 * controls.of_ceiling));
  add("C6", "other names of members, tasks and work at once change no arm's throughput, lag or length",
      "C6/relabelled_most_off", controls.relabelled, "share",
      fmt::format("{:.6f} % at most", 100 * controls.relabelled));
  return text;
}

}  // namespace stoker
