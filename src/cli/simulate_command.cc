#include <fmt/core.h>

#include "base/figure_report.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "simulation/simulate.h"

namespace stoker {

int run_simulate(const SimulateArguments& arguments) {
  const Scenario scenario = read_scenario(arguments.scenario, arguments.assignments);
  const SimulationResult result = simulate(scenario);
  const Ceilings limits = ceilings(scenario);
  FigureReport report;
  report.add({.name = "trajectories_per_hour",
              .value = result.trajectories_per_hour,
              .unit = "1/h",
              .baseline = limits.lowest(),
              .seed = scenario.seed});
  for (const auto& [name, value] : to_metrics(result)) {
    if (name == "trajectories_per_hour") continue;
    const bool seconds = name.ends_with("seconds");
    const bool lag = name.find("lag/") != std::string::npos;
    report.add({.name = name,
                .value = value,
                .unit = seconds ? "s"
                        : lag   ? "versions"
                                : "",
                .baseline = {},
                .seed = scenario.seed});
  }
  report.add("ceiling/trainer", limits.trainer, "1/h");
  report.add("ceiling/engine", limits.engine, "1/h");
  report.add("ceiling/slots", limits.slots, "1/h");
  write_figures(report, arguments.json);
  return kExitDone;
}

}  // namespace stoker
