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

// The published predictions are means of so many seeds, the first ones.
constexpr int64_t kPublishedSeeds = 5;

// What a difference may be without an explanation.
constexpr double kClose = 0.05;

using Results = std::vector<ReferenceResult>;  // by seed

// A regime with what was played in it.
class Regime {
 public:
  Regime(std::string name, const BenchAsyncArguments& arguments, Parallel& parallel)
      : name_(std::move(name)),
        steps_(arguments.steps),
        seeds_(std::max(arguments.seeds, kPublishedSeeds)),
        parallel_(parallel) {}

  const std::string& name() const { return name_; }
  int64_t seeds() const { return seeds_; }

  Scenario scenario(const Arm& arm, const NamedLaw& law) const {
    Scenario scenario = arm.apply(law.apply(regime(name_)));
    scenario.steps = steps_;
    scenario.endless = true;
    return scenario;
  }

  const Results& controller(const Arm& arm, const NamedLaw& law) {
    Results& results = controller_[{arm.name, law.name}];
    if (results.empty()) results = play_controller(scenario(arm, law), seeds_, parallel_);
    return results;
  }
  Results model(const Scenario& scenario) const {
    return play_model(scenario, seeds_, kControllerRules, parallel_);
  }
  Results model(const Scenario& scenario, const ReferenceRules& rules) const {
    return play_model(scenario, kPublishedSeeds, rules, parallel_);
  }

 private:
  std::string name_;
  int64_t steps_, seeds_;
  Parallel& parallel_;
  std::map<std::pair<std::string, std::string>, Results> controller_;  // by arm and law
};

std::string percent(double share) { return fmt::format("{:+.2f} %", 100 * share); }

// The last cells of a row: the largest differences of throughput, lag and length.
std::string largest(const Agreement& worst) {
  return fmt::format(" {} | {} | {} |\n", percent(worst.throughput), percent(worst.lag),
                     percent(worst.length));
}

void add(FigureReport& report, const std::string& prefix, const Agreement& worst) {
  report.add(prefix + "_throughput_most_off", std::abs(worst.throughput), "share");
  report.add(prefix + "_lag_most_off", std::abs(worst.lag), "share");
  report.add(prefix + "_length_most_off", std::abs(worst.length), "share");
}

// The controller against the model of its own rules, arm by arm.
std::string compare_rules(Regime& regime, FigureReport& report) {
  std::string table;
  Agreement worst_of_all, worst_of_a_seed;
  for (const Arm& arm : protocol_arms()) {
    if (!reference_model_covers(regime.scenario(arm, protocol_laws().front()))) continue;
    std::string row;
    Agreement worst;
    for (const NamedLaw& law : protocol_laws()) {
      const Results model = regime.model(regime.scenario(arm, law)),
                    &controller = regime.controller(arm, law);
      const ReferenceResult mean = mean_of(controller, regime.seeds()),
                            expected = mean_of(model, regime.seeds());
      const Agreement agreement = compare(mean, expected);
      for (size_t seed = 0; seed < model.size(); ++seed) {
        worst_of_a_seed = worst_of_a_seed.worst(compare(controller[seed], model[seed]));
      }
      worst = worst.worst(agreement);
      row += fmt::format(" {:.0f} ({}) |", mean.trajectories_per_hour, percent(agreement.throughput));
      report.add(
          {.name = figure_slug(regime.name() + "/" + law.name + "/" + arm.name) + "/trajectories_per_hour",
           .value = mean.trajectories_per_hour,
           .unit = "1/h",
           .baseline = expected.trajectories_per_hour,
           .seed = {}});
    }
    table += fmt::format("| {} |{}{}", arm.name, row, largest(worst));
    add(report, figure_slug(regime.name() + "/" + arm.name) + "/model", worst);
    worst_of_all = worst_of_all.worst(worst);
  }
  add(report, regime.name() + "/model", worst_of_all);
  add(report, regime.name() + "/model_of_one_seed", worst_of_a_seed);
  return table;
}

// Against the published predictions: the model of their rules, or the controller.
class PublishedComparison {
 public:
  PublishedComparison(Regime& regime, bool controller, FigureReport& report)
      : regime_(regime),
        controller_(controller),
        report_(report),
        predictions_(published_predictions(regime.name())) {
    for (const NamedLaw& law : protocol_laws()) {
      colocated_[law.name] = mean_of(played(protocol_arms().front(), law), kPublishedSeeds);
    }
  }

  std::string table() {
    std::string table;
    Agreement unexplained;
    for (const Arm& arm : protocol_arms()) {
      if (!predictions_.contains(arm.name)) continue;
      Agreement left = compare_arm(arm, table);
      for (const Ablation& ablation : published_ablations()) {
        if (!controller_ || ablation.arm != arm.name || left.most() <= kClose) continue;
        left = compare_ablated(arm, ablation, table);
      }
      unexplained = unexplained.worst(left);
    }
    add(report_, regime_.name() + prefix() + "_unexplained", unexplained);
    return table;
  }

 private:
  std::string prefix() const { return controller_ ? "/published_controller" : "/published_model"; }

  Results played(const Arm& arm, const NamedLaw& law) {
    if (controller_) return regime_.controller(arm, law);
    return regime_.model(regime_.scenario(arm, law), kPublishedRules);
  }

  // What both tables print and report of an arm under every law.
  template <typename Play>
  Agreement compare_laws(const Arm& arm, const std::string& row_name, const std::string& figures,
                         std::string& table, Play play) {
    Agreement worst;
    std::string row;
    for (const NamedLaw& law : protocol_laws()) {
      const ReferenceResult result = mean_of(play(law), kPublishedSeeds);
      const Agreement agreement =
          compare(result, colocated_.at(law.name), predictions_.at(arm.name).at(law.name));
      worst = worst.worst(agreement);
      row += fmt::format(" {:.2f}x L{:.2f} ({}) |",
                         result.trajectories_per_hour / colocated_.at(law.name).trajectories_per_hour,
                         result.length_ratio, percent(agreement.throughput));
    }
    table += fmt::format("| {} |{}{}", row_name, row, largest(worst));
    add(report_, figure_slug(regime_.name() + "/" + arm.name) + figures, worst);
    return worst;
  }

  Agreement compare_arm(const Arm& arm, std::string& table) {
    return compare_laws(arm, arm.name, prefix(), table,
                        [&](const NamedLaw& law) { return played(arm, law); });
  }

  // The arm without what makes the difference.
  Agreement compare_ablated(const Arm& arm, const Ablation& ablation, std::string& table) {
    const std::string name = fmt::format("{}, less {}", arm.name, ablation.what);
    Agreement worst;
    std::string row;
    for (const NamedLaw& law : protocol_laws()) {
      const ReferenceResult result = mean_of(played(arm, law), kPublishedSeeds),
                            model = mean_of(regime_.model(regime_.scenario(arm, law), ablation.rules),
                                            kPublishedSeeds);
      const Agreement agreement = compare(result, model);
      worst = worst.worst(agreement);
      row += fmt::format(" {:.2f}x L{:.2f} ({}) |",
                         model.trajectories_per_hour / colocated_.at(law.name).trajectories_per_hour,
                         model.length_ratio, percent(agreement.throughput));
    }
    table += fmt::format("| {} |{}{}", name, row, largest(worst));
    add(report_, figure_slug(regime_.name() + "/" + arm.name) + prefix() + "_ablated", worst);
    return worst;
  }

  Regime& regime_;
  bool controller_;
  FigureReport& report_;
  Predictions predictions_;
  std::map<std::string, ReferenceResult> colocated_;  // by law
};

std::string header(const std::string& title) {
  std::string head = "### " + title + "\n\n| arm |", rule = "|---|";
  for (const NamedLaw& law : protocol_laws()) head += " " + law.name + " |", rule += "---|";
  return head + " throughput | lag | length |\n" + rule + "---|---|---|\n";
}

}  // namespace

std::string check_agreement(const BenchAsyncArguments& arguments, FigureReport& report) {
  ThreadTeam team(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  std::string text = fmt::format(
      "Trajectories per hour of the controller, mean over {} seeds, and by how much they differ from those "
      "of "
      "the protocol's model on the same draws; {} steps, 30 of them warm-up. Below: speeds over colocated "
      "synchronous training, mean over {} seeds, mean trained over mean dispatched length (L), and how far "
      "the speed is from the published prediction, of the model under the published rules and of the "
      "controller; where that is more than {:.0f} % and the cause is known, the arm once more with the cause "
      "taken away. The last columns: the largest differences of throughput, mean lag and L.\n",
      std::max(arguments.seeds, kPublishedSeeds), arguments.steps, kPublishedSeeds, 100 * kClose);
  for (const std::string& name : arguments.regimes) {
    Regime regime(name, arguments, team);
    text += "\n" + header(name + ", controller against model") + compare_rules(regime, report);
    text += "\n" + header(name + ", model against published") +
            PublishedComparison(regime, false, report).table();
    text += "\n" + header(name + ", controller against published") +
            PublishedComparison(regime, true, report).table();
  }
  return text;
}

}  // namespace stoker
