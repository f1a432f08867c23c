#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/figure_report.h"
#include "base/file.h"
#include "cli/bench_async_checks.h"
#include "cli/bench_async_real.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "simulation/async_protocol.h"
#include "simulation/simulate.h"

namespace stoker {
namespace {

// The runs of one arm under one law, one a seed.
std::vector<SimulationResult> play(const Scenario& base, const BenchAsyncArguments& arguments) {
  std::vector<SimulationResult> results;
  for (int64_t seed = 1; seed <= arguments.seeds; ++seed) {
    Scenario scenario = base;
    scenario.steps = arguments.steps;
    scenario.endless = true;
    scenario.seed = seed;
    results.push_back(simulate(scenario));
  }
  return results;
}

template <typename Value>
double mean_of(const std::vector<SimulationResult>& results, Value value) {
  double sum = 0;
  for (const SimulationResult& result : results) sum += value(result);
  return sum / static_cast<double>(results.size());
}

// "9.67x L0.98": throughput over the baseline's, and trained over dispatched length where they differ.
std::string cell(const Interval& speed, double length) {
  std::string text = fmt::format("{:.2f}x [{:.2f}, {:.2f}]", speed.mean, speed.low, speed.high);
  if (length < 0.98 || length > 1.02) text += fmt::format(" L{:.2f}", length);
  return text;
}

std::string play_regime(const std::string& name, const BenchAsyncArguments& arguments, FigureReport& report) {
  const std::vector<NamedLaw> laws = protocol_laws();
  const std::vector<Arm> arms = protocol_arms();
  std::string header = "| arm |", rule = "|---|";
  for (const NamedLaw& law : laws) header += " " + law.name + " |", rule += "---|";
  std::vector<std::string> rows(arms.size());
  for (const NamedLaw& law : laws) {
    std::vector<SimulationResult> baseline;
    for (size_t i = 0; i < arms.size(); ++i) {
      const std::vector<SimulationResult> results = play(arms[i].apply(law.apply(regime(name))), arguments);
      if (i == 0) baseline = results;
      std::vector<double> ratios;
      for (size_t seed = 0; seed < results.size(); ++seed) {
        ratios.push_back(results[seed].trajectories_per_hour / baseline[seed].trajectories_per_hour);
      }
      const double length = mean_of(results, [](const auto& result) { return result.length_ratio; });
      rows[i] += " " + cell(bootstrap_interval(ratios), length) + " |";
      const std::string prefix = figure_slug(name + "/" + law.name + "/" + arms[i].name) + "/";
      report.add(
          {.name = prefix + "trajectories_per_hour",
           .value = mean_of(results, [](const auto& result) { return result.trajectories_per_hour; }),
           .unit = "1/h",
           .baseline = mean_of(baseline, [](const auto& result) { return result.trajectories_per_hour; }),
           .seed = {}});
      report.add(prefix + "length_ratio", length, "");
      report.add(prefix + "lag_mean", mean_of(results, [](const auto& result) { return result.lag_mean; }),
                 "versions");
      report.add(prefix + "lag_p95", mean_of(results, [](const auto& result) { return result.lag_p95; }),
                 "versions");
    }
  }
  std::string table = "### " + name + "\n\n" + header + "\n" + rule + "\n";
  for (size_t i = 0; i < arms.size(); ++i) table += "| " + arms[i].name + " |" + rows[i] + "\n";
  return table;
}

// A fixed depth counts as good as the largest throughput within this.
constexpr double kDepthTolerance = 0.03;

double mean_throughput(const std::vector<SimulationResult>& results) {
  return mean_of(results, [](const auto& result) { return result.trajectories_per_hour; });
}

// The worst of adaptive depth over some laws.
struct AdaptiveDepth {
  double most_off = 0;  // batches between the mean found and the best
  double least_of_best = 1;
};

// One row: the throughput of every fixed depth over the largest, the best of them, and what was found.
std::string compare_depths(const std::string& name, const NamedLaw& law, const BenchAsyncArguments& arguments,
                           FigureReport& report, AdaptiveDepth& worst) {
  const Scenario base = law.apply(regime(name));
  std::vector<double> fixed;
  for (int depth = 0; depth <= kMostDepth; ++depth) {
    Scenario scenario = base;
    scenario.max_ahead = depth;
    fixed.push_back(mean_throughput(play(scenario, arguments)));
  }
  const std::vector<SimulationResult> found = play(adaptive(base), arguments);
  const double largest = *std::max_element(fixed.begin(), fixed.end());
  const int64_t best = best_depth(fixed, kDepthTolerance);
  const double of_best = mean_throughput(found) / fixed[static_cast<size_t>(best)];
  const double depth = mean_of(found, [](const auto& result) { return result.depth_mean; });
  std::string row = fmt::format("| {} |", law.name);
  for (double value : fixed) row += fmt::format(" {:.3f} |", value / largest);
  std::string depths;
  for (const SimulationResult& result : found) depths += fmt::format(" {}", result.depth_found);
  row += fmt::format(" {} |{} | {:.2f} | {:.3f} |\n", best, depths, depth, of_best);
  const std::string prefix = figure_slug(name + "/" + law.name) + "/";
  report.add(prefix + "best_depth", static_cast<double>(best), "batches");
  report.add(prefix + "adaptive_depth", depth, "batches");
  report.add(prefix + "adaptive_of_best", of_best, "share");
  worst.most_off = std::max(worst.most_off, std::abs(depth - static_cast<double>(best)));
  worst.least_of_best = std::min(worst.least_of_best, of_best);
  return row;
}

std::string compare_depths(const std::string& name, const BenchAsyncArguments& arguments,
                           FigureReport& report) {
  std::string header = "| law |", rule = "|---|";
  for (int depth = 0; depth <= kMostDepth; ++depth) header += fmt::format(" eta {} |", depth), rule += "---|";
  header += " best | found | mean | adaptive |";
  std::string table = "### " + name + "\n\n" + header + "\n" + rule + "---|---|---|---|\n";
  AdaptiveDepth worst;
  for (const NamedLaw& law : all_laws()) table += compare_depths(name, law, arguments, report, worst);
  report.add(name + "/adaptive_depth_most_off", worst.most_off, "batches");
  report.add(name + "/adaptive_of_best_least", worst.least_of_best, "share");
  return table;
}

// "96.1 % [95.8, 96.4] L1.00 [0.99, 1.01]": throughput over the lowest ceiling, and trained over dispatched
// length.
std::string price_cap(const Scenario& scenario, const std::string& prefix,
                      const BenchAsyncArguments& arguments, FigureReport& report) {
  const std::vector<SimulationResult> results = play(scenario, arguments);
  const double ceiling = ceilings(scenario).lowest();
  std::vector<double> shares, lengths;
  for (const SimulationResult& result : results) {
    shares.push_back(result.trajectories_per_hour / ceiling);
    lengths.push_back(result.length_ratio);
  }
  const Interval share = bootstrap_interval(shares), length = bootstrap_interval(lengths);
  report.add(prefix + "of_ceiling", share.mean, "share");
  report.add(prefix + "length_ratio_low", length.low, "");
  report.add(prefix + "length_ratio_high", length.high, "");
  report.add(prefix + "stale_share", mean_of(results, [](const auto& result) { return result.stale_share; }),
             "share");
  return fmt::format(" {:.1f} % [{:.1f}, {:.1f}] L{:.2f} [{:.2f}, {:.2f}] |", 100 * share.mean,
                     100 * share.low, 100 * share.high, length.mean, length.low, length.high);
}

std::string price_caps(const std::string& name, const BenchAsyncArguments& arguments, FigureReport& report) {
  std::vector<NamedLaw> laws = protocol_laws();
  std::erase_if(laws, [](const NamedLaw& law) {
    return law.name != "logn 2" && law.name != "Pareto 1.5" && law.name != "bimodal";
  });
  std::string table = "### " + name + "\n\n| cap |", rule = "|---|";
  for (const NamedLaw& law : laws) table += " " + law.name + " |", rule += "---|";
  table += "\n" + rule + "\n";
  for (const Arm& arm : capped_arms()) {
    table += "| " + arm.name + " |";
    for (const NamedLaw& law : laws) {
      table += price_cap(arm.apply(law.apply(regime(name))),
                         figure_slug(name + "/" + law.name + "/" + arm.name) + "/", arguments, report);
    }
    table += "\n";
  }
  return table;
}

std::string heading(const BenchAsyncArguments& arguments) {
  if (arguments.depths) {
    return fmt::format(
        "Trajectories per hour over the largest of the fixed depths, mean over {} seeds; {} steps, 30 of "
        "them "
        "warm-up. best: the smallest fixed depth within {:.0f} % of the largest; found: by adaptive depth, a "
        "run each; mean: its mean over the steps; adaptive: its throughput over that of the best fixed "
        "depth.\n",
        arguments.seeds, arguments.steps, 100 * kDepthTolerance);
  }
  if (arguments.caps) {
    return fmt::format(
        "Depth 4, mean over {} seeds with its 95 % bootstrap interval; {} steps, 30 of them warm-up. "
        "Trajectories per hour over the lowest of the ceilings of trainer, engine and slots; L: mean trained "
        "over mean dispatched length.\n",
        arguments.seeds, arguments.steps);
  }
  return fmt::format(
      "Trajectories per hour over those of colocated synchronous training, mean over {} paired seeds with "
      "its "
      "95 % bootstrap interval; {} steps, 30 of them warm-up; L: mean trained over mean dispatched length.\n",
      arguments.seeds, arguments.steps);
}

int tell(const std::string& text, FigureReport& report, const BenchAsyncArguments& arguments) {
  fmt::print("\n{}", text);
  write_figures(report, arguments.json);
  write_text(text, arguments.markdown);
  return kExitDone;
}

}  // namespace

std::string figure_slug(const std::string& name) {
  std::string result;
  for (char c : name) {
    if (c == ',' || c == '>' || c == '%') continue;
    result += c == ' ' || c == '+' ? '_' : c;
  }
  return result;
}

int run_bench_async(const BenchAsyncArguments& given) {
  if (given.real) return run_bench_async_real(given);
  constexpr int64_t kSteps = 230, kFewestSteps = 31;
  BenchAsyncArguments arguments = given;
  if (arguments.steps == 0) arguments.steps = kSteps;
  if (arguments.steps < kFewestSteps) {
    throw input_error(
        fmt::format("--steps must be a whole number of at least {} on the virtual clock, since 30 steps are "
                    "warm-up; {} is not.",
                    kFewestSteps, arguments.steps));
  }
  FigureReport report;
  if (arguments.controls || arguments.agreement) {
    return tell(arguments.controls ? check_controls(arguments, report) : check_agreement(arguments, report),
                report, arguments);
  }
  std::string text = heading(arguments);
  for (const std::string& name : arguments.regimes) {
    text += "\n" + (arguments.depths ? compare_depths(name, arguments, report)
                    : arguments.caps ? price_caps(name, arguments, report)
                                     : play_regime(name, arguments, report));
  }
  return tell(text, report, arguments);
}

}  // namespace stoker
