#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "cli/bench_async_checks.h"
#include "cli/command.h"
#include "simulation/agreement.h"
#include "simulation/async_protocol.h"

namespace stoker {
namespace {

// The published predictions are means of so many seeds.
constexpr int64_t kPublishedSeeds = 5;

struct Tables {
  std::string agreement, published;
};

// The scenario of an arm, or nothing where the model has no rules for it.
std::optional<Scenario> covered(const Arm& arm, const NamedLaw& law, const std::string& name,
                                const BenchAsyncArguments& arguments) {
  Scenario scenario = arm.apply(law.apply(regime(name)));
  scenario.steps = arguments.steps;
  scenario.endless = true;
  if (!reference_model_covers(scenario)) return std::nullopt;
  return scenario;
}

// Trajectories per hour of the controller over those of the model, less 1, arm by arm.
std::string compare_controller(const std::string& name, const BenchAsyncArguments& arguments,
                               Parallel& parallel, FigureReport& report) {
  std::string table;
  double most_of_all = 0;
  for (const Arm& arm : protocol_arms()) {
    std::string row;
    double most = 0;
    for (const NamedLaw& law : protocol_laws()) {
      const std::optional<Scenario> scenario = covered(arm, law, name, arguments);
      if (!scenario) break;
      const Agreement agreement = compare_with_model(*scenario, arguments.seeds, parallel);
      most = std::max(most, std::abs(agreement.difference()));
      row += fmt::format(" {:.0f} ({:+.2f} %) |", agreement.controller, 100 * agreement.difference());
      const std::string prefix = figure_slug(name + "/" + law.name + "/" + arm.name) + "/";
      report.add({.name = prefix + "trajectories_per_hour",
                  .value = agreement.controller,
                  .unit = "1/h",
                  .baseline = agreement.model,
                  .seed = {}});
    }
    if (row.empty()) continue;
    table += fmt::format("| {} |{} {:.2f} % |\n", arm.name, row, 100 * most);
    report.add(figure_slug(name + "/" + arm.name) + "/most_off", most, "share");
    most_of_all = std::max(most_of_all, most);
  }
  report.add(name + "/most_off", most_of_all, "share");
  return table;
}

// The model's own speed over colocated training, and how far the published one is from it.
std::string compare_published(const std::string& name, const BenchAsyncArguments& arguments,
                              Parallel& parallel, FigureReport& report) {
  const Predictions predictions = published_predictions(name);
  const std::vector<Arm> arms = protocol_arms();
  const auto throughput = [&](const Arm& arm, const NamedLaw& law) {
    return model_throughput(*covered(arm, law, name, arguments), kPublishedSeeds, ReferenceRules::kPublished,
                            parallel);
  };
  std::map<std::string, double> colocated;
  for (const NamedLaw& law : protocol_laws()) colocated[law.name] = throughput(arms.front(), law);
  std::string table;
  for (const Arm& arm : arms) {
    const auto published = predictions.find(arm.name);
    if (published == predictions.end()) continue;
    std::string row;
    double most = 0;
    for (const NamedLaw& law : protocol_laws()) {
      const double speed = throughput(arm, law) / colocated.at(law.name);
      const double difference = speed / published->second.at(law.name) - 1;
      most = std::max(most, std::abs(difference));
      row += fmt::format(" {:.2f}x ({:+.1f} %) |", speed, 100 * difference);
    }
    table += fmt::format("| {} |{} {:.1f} % |\n", arm.name, row, 100 * most);
    report.add(figure_slug(name + "/" + arm.name) + "/published_most_off", most, "share");
  }
  return table;
}

std::string header(const std::string& title) {
  std::string head = "### " + title + "\n\n| arm |", rule = "|---|";
  for (const NamedLaw& law : protocol_laws()) head += " " + law.name + " |", rule += "---|";
  return head + " largest |\n" + rule + "---|\n";
}

}  // namespace

std::string check_agreement(const BenchAsyncArguments& arguments, FigureReport& report) {
  ThreadTeam team(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  std::string text = fmt::format(
      "Trajectories per hour of the controller, mean over {} seeds, and by how much those of the protocol's "
      "model differ on the same draws; {} steps, 30 of them warm-up. Below: the model's speed over colocated "
      "synchronous training, mean over {} seeds, and how far it is from the published prediction.\n",
      arguments.seeds, arguments.steps, kPublishedSeeds);
  for (const std::string& name : arguments.regimes) {
    text += "\n" + header(name + ", controller") + compare_controller(name, arguments, team, report);
    text += "\n" + header(name + ", model") + compare_published(name, arguments, team, report);
  }
  return text;
}

}  // namespace stoker
