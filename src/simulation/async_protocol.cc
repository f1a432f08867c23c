#include "simulation/async_protocol.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace stoker {
namespace {

Scenario with_depth(Scenario scenario, int max_ahead) {
  scenario.max_ahead = max_ahead;
  return scenario;
}

Scenario with_cap(Scenario scenario, int64_t max_staleness, const char* action) {
  scenario.max_ahead = 4;
  scenario.max_staleness = max_staleness;
  scenario.stale_action = action;
  return scenario;
}

Scenario redundant(Scenario scenario) {
  scenario.max_ahead = 0;
  scenario.extra_groups = scenario.groups_per_step / 4;
  scenario.max_staleness = 0;
  scenario.stale_action = "cancel";
  return scenario;
}

Scenario on_update(Scenario scenario, const char* what) {
  scenario.max_ahead = 4;
  scenario.on_update = what;
  return scenario;
}

// Depth at which the queue of ready groups is about a batch; whatever is over the cap is lost.
Scenario discard(Scenario scenario, int64_t max_staleness) {
  scenario = with_cap(scenario, max_staleness, "drop");
  scenario.max_ahead = static_cast<int>(std::min<int64_t>(max_staleness, 3));
  scenario.batch_order = "completion";
  return scenario;
}

Scenario colocated(Scenario scenario) {
  scenario.max_ahead = 0;
  scenario.train_seconds /= 2;
  scenario.publish_seconds = 15;
  scenario.engine_tokens_per_second *= 2;
  scenario.max_concurrent_episodes = 1024;
  return scenario;
}

}  // namespace

Scenario NamedLaw::apply(Scenario scenario) const {
  scenario.law = law;
  scenario.growth = growth;
  scenario.tool_failure_share = tool_failure_share;
  return scenario;
}

Scenario adaptive(Scenario scenario) {
  scenario.adaptive_depth = true;
  return with_depth(scenario, kMostDepth);
}

int64_t best_depth(const std::vector<double>& throughputs, double tolerance) {
  const double largest = *std::ranges::max_element(throughputs);
  return std::ranges::find_if(throughputs, [&](double value) { return value >= (1 - tolerance) * largest; }) -
         throughputs.begin();
}

std::vector<NamedLaw> all_laws() {
  std::vector<NamedLaw> laws = protocol_laws();
  const std::vector<NamedLaw> rest = {{"Pareto 2", {.kind = "pareto", .alpha = 2}},
                                      {"Pareto 2.5", {.kind = "pareto", .alpha = 2.5}},
                                      {"logn 1, tools fail", {.kind = "lognormal", .cv = 1}, 1, 0.005},
                                      {"logn 1, drift 1 to 3", {.kind = "lognormal", .cv = 1}, 3},
                                      {"logn 1, drift 3 to 1", {.kind = "lognormal", .cv = 1}, 1.0 / 3}};
  laws.insert(laws.end(), rest.begin(), rest.end());
  return laws;
}

std::vector<NamedLaw> protocol_laws() {
  return {{"constant", {.kind = "constant"}},
          {"logn 0.5", {.kind = "lognormal", .cv = 0.5}},
          {"logn 1", {.kind = "lognormal", .cv = 1}},
          {"logn 2", {.kind = "lognormal", .cv = 2}},
          {"Pareto 1.5", {.kind = "pareto", .alpha = 1.5}},
          {"bimodal", {.kind = "bimodal"}},
          {"bimodal + time-out", {.kind = "bimodal", .time_out = 3}}};
}

Scenario regime(const std::string& name) {
  Scenario scenario;
  if (name == "R1") return scenario;
  scenario.sequence_tokens_per_second = 200;
  scenario.tool_seconds = 5;
  if (name == "R2") return scenario;
  scenario.train_seconds = 15;
  if (name == "R3") return scenario;
  throw input_error("There is no regime '" + name + "'; the regimes are R1, R2 and R3.");
}

std::vector<Arm> protocol_arms() {
  return {{"sync, colocated", colocated},
          {"sync", [](Scenario s) { return with_depth(s, 0); }},
          {"sync + 25 % redundant", redundant},
          {"eta 1", [](Scenario s) { return with_depth(s, 1); }},
          {"eta 2", [](Scenario s) { return with_depth(s, 2); }},
          {"eta 4", [](Scenario s) { return with_depth(s, 4); }},
          {"eta adaptive", adaptive},
          {"eta 4, completion order",
           [](Scenario s) {
             s.batch_order = "completion";
             return with_depth(s, 4);
           }},
          {"eta 4, strict order",
           [](Scenario s) {
             s.batch_order = "strict";
             return with_depth(s, 4);
           }},
          {"eta 4, update at turns",
           [](Scenario s) {
             s.update_boundary = "turn";
             return with_depth(s, 4);
           }},
          {"eta 4, drain at update",
           [](Scenario s) {
             s.update_boundary = "barrier";
             return with_depth(s, 4);
           }},
          {"eta 4, re-prefill 150k tok/s", [](Scenario s) { return on_update(s, "recompute"); }},
          {"eta 4, abort + restart", [](Scenario s) { return on_update(s, "restart"); }},
          {"eta 4, cancel > 12", [](Scenario s) { return with_cap(s, 12, "cancel"); }},
          {"eta 4, cancel > 24", [](Scenario s) { return with_cap(s, 24, "cancel"); }},
          {"eta 4, drop > 24", [](Scenario s) { return with_cap(s, 24, "drop"); }},
          {"eta 4, wait at 12", [](Scenario s) { return with_cap(s, 12, "wait"); }},
          {"discard > 1", [](Scenario s) { return discard(s, 1); }},
          {"discard > 2", [](Scenario s) { return discard(s, 2); }},
          {"discard > 4", [](Scenario s) { return discard(s, 4); }},
          {"discard > 8", [](Scenario s) { return discard(s, 8); }}};
}

std::vector<Arm> capped_arms() {
  return {{"H 256", [](Scenario s) { return with_cap(s, 256, "drop"); }},
          {"drop > 24", [](Scenario s) { return with_cap(s, 24, "drop"); }},
          {"drop > 12", [](Scenario s) { return with_cap(s, 12, "drop"); }},
          {"cancel > 24", [](Scenario s) { return with_cap(s, 24, "cancel"); }},
          {"cancel > 12", [](Scenario s) { return with_cap(s, 12, "cancel"); }},
          {"wait at 24", [](Scenario s) { return with_cap(s, 24, "wait"); }},
          {"wait at 12", [](Scenario s) { return with_cap(s, 12, "wait"); }},
          {"mask > 24", [](Scenario s) { return with_cap(s, 24, "mask"); }},
          {"mask > 12", [](Scenario s) { return with_cap(s, 12, "mask"); }}};
}

Interval bootstrap_interval(const std::vector<double>& ratios) {
  constexpr int kResamples = 2000;
  const auto mean_of = [&](auto draw) {
    double sum = 0;
    for (size_t i = 0; i < ratios.size(); ++i) sum += ratios[draw(i)];
    return sum / static_cast<double>(ratios.size());
  };
  RandomStream random({.run_seed = 0x5eed, .purpose = RandomPurpose::kData});
  std::vector<double> means;
  for (int i = 0; i < kResamples; ++i) {
    means.push_back(mean_of([&](size_t) { return random.below(ratios.size()); }));
  }
  std::sort(means.begin(), means.end());
  return {.low = means[kResamples * 25 / 1000],
          .mean = mean_of([](size_t i) { return i; }),
          .high = means[kResamples * 975 / 1000 - 1]};
}

}  // namespace stoker
