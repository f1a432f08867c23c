#include "simulation/simulate.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "observe/perfetto_writer.h"
#include "observe/trace_files.h"
#include "observe/trace_summary.h"
#include "simulation/async_protocol.h"

namespace stoker {
namespace {

Scenario short_scenario(const std::string& kind, int max_ahead) {
  Scenario scenario;
  scenario.law.kind = kind;
  scenario.max_ahead = max_ahead;
  scenario.steps = 24;
  scenario.warm_up_steps = 6;
  scenario.groups_per_step = 8;
  scenario.max_concurrent_episodes = 128;
  scenario.engine_tokens_per_second = 4266.5;
  return scenario;
}

// Control C4 of the protocol (Stoker's reference on asynchronous rollouts, section 8.5): 4000 tokens at 60
// per second, 30 s of tools, 60 s of training, 5 s of publication.
TEST(Simulate, ASynchronousStepOfConstantEpisodesIsTheSumOfItsParts) {
  const SimulationResult result = simulate(short_scenario("constant", 0));
  EXPECT_NEAR(result.virtual_seconds / 18, 4000.0 / 60 + 30 + 60 + 5, 0.01);
  EXPECT_EQ(result.lag_max, 0);
  EXPECT_EQ(result.trajectories, 18 * 64);
}

// Controls C3 (Little's law: the mean lag is eta where admission binds) and C5 (no arm beats the ceiling).
TEST(Simulate, TheMeanLagIsTheDepthAndNothingBeatsTheCeiling) {
  double before = 0;
  for (int depth : {0, 1, 2, 4}) {
    Scenario scenario = short_scenario("lognormal", depth);
    scenario.max_concurrent_episodes = 4096;
    scenario.engine_tokens_per_second = 1e6;
    scenario.steps = 60;
    scenario.warm_up_steps = 20;
    const SimulationResult result = simulate(scenario);
    EXPECT_NEAR(result.lag_mean, depth, 0.25 * depth);
    EXPECT_LE(result.trajectories_per_hour, ceilings(scenario).lowest() * 1.0001);
    EXPECT_GT(result.trajectories_per_hour, before);
    before = result.trajectories_per_hour;
  }
}

// The lengths that count are those of the measured steps.
TEST(Simulate, NothingBeatsTheCeilingOfWorkThatShrinksOrGrows) {
  for (const double growth : {0.1, 4.0}) {
    SCOPED_TRACE(growth);
    Scenario scenario = short_scenario("constant", 2);
    scenario.growth = growth;
    scenario.engine_tokens_per_second = 1000;
    scenario.train_seconds = 1;
    scenario.steps = 60;
    scenario.warm_up_steps = 30;
    const SimulationResult result = simulate(scenario);
    EXPECT_GT(result.engine_utilisation, 0.8);
    EXPECT_LE(result.trajectories_per_hour, 1.02 * ceilings(scenario).engine);
    EXPECT_GT(result.trajectories_per_hour, 0.8 * ceilings(scenario).engine);
  }
}

TEST(Simulate, LengthsBeyondEveryCountArePlayed) {
  Scenario scenario = short_scenario("constant", 0);
  scenario.tokens = 1e30;
  scenario.steps = 2;
  scenario.warm_up_steps = 0;
  EXPECT_EQ(simulate(scenario).trajectories, 2 * 64);
}

TraceSummary trace_of(const Scenario& scenario, SimulationResult* result) {
  const TestFolder folder;
  {
    PerfettoWriter writer(folder.path(), {});
    *result = simulate(scenario, &writer);
  }
  const ControllerOptions options = controller_options(scenario);
  return summarize_trace(trace_files(folder.path()),
                         {.groups_per_batch = options.groups_per_batch,
                          .group_size = options.group_size,
                          .max_concurrent_episodes = options.max_concurrent_episodes,
                          .max_ahead = options.max_ahead,
                          .shared_cores = false});
}

// Follows the advice and compares what came of it with what was predicted.
TEST(TraceSummary, TheAdviceForASimulatedRunGivesAboutWhatItPredicts) {
  for (const char* law : {"constant", "lognormal"}) {
    SCOPED_TRACE(law);
    Scenario scenario = short_scenario(law, 0);
    scenario.max_concurrent_episodes = 512;
    SimulationResult before, after;
    const TraceAdvice advice = trace_of(scenario, &before).advice;
    ASSERT_EQ(advice.knob, "rollout.max_ahead") << advice.sentence;
    scenario.max_ahead = static_cast<int>(advice.setting);
    trace_of(scenario, &after);
    const double gain = after.trajectories_per_hour / before.trajectories_per_hour - 1;
    EXPECT_LT(gain, 1.15 * advice.gain) << advice.sentence;
    EXPECT_GT(gain, 0.6 * advice.gain) << advice.sentence;
  }
}

TEST(TraceSummary, ATracedRunIsTheSameRun) {
  const Scenario scenario = short_scenario("bimodal", 2);
  SimulationResult traced;
  const TraceSummary summary = trace_of(scenario, &traced);
  EXPECT_EQ(traced.schedule_digest, simulate(scenario).schedule_digest);
  EXPECT_EQ(summary.steps, scenario.steps);
  EXPECT_EQ(summary.versions, scenario.steps + 1);
  EXPECT_EQ(summary.episode_spans.at("tool").count, summary.episode_spans.at("decode").count);
  EXPECT_NEAR(summary.learner_spans.at("train").mean, scenario.train_seconds, 1e-3);
}

// Within one of the smallest fixed depth that gives 97 % of the most, and 3 % of its throughput.
void expect_adaptive_depth_is_near_the_best(Scenario scenario) {
  scenario.steps = 100;
  scenario.warm_up_steps = 30;
  std::vector<double> fixed;
  for (int depth = 0; depth <= 5; ++depth) {
    scenario.max_ahead = depth;
    fixed.push_back(simulate(scenario).trajectories_per_hour);
  }
  const int64_t best = best_depth(fixed, 0.03);
  scenario.max_ahead = kMostDepth;
  scenario.adaptive_depth = true;
  const SimulationResult found = simulate(scenario);
  EXPECT_LE(std::abs(found.depth_found - best), 1);
  EXPECT_NEAR(found.depth_mean, static_cast<double>(best), 1);
  EXPECT_GT(found.trajectories_per_hour, 0.97 * fixed[static_cast<size_t>(best)]);
}

TEST(Simulate, AdaptiveDepthIsNearTheBestFixedOneWhereTheTrainerIsScarce) {
  expect_adaptive_depth_is_near_the_best(short_scenario("lognormal", 0));
}

TEST(Simulate, AdaptiveDepthIsNearTheBestFixedOneWhereTheEngineIsScarce) {
  Scenario scenario = short_scenario("lognormal", 0);
  scenario.train_seconds = 10;
  expect_adaptive_depth_is_near_the_best(scenario);
}

// A third batch ahead gives more tokens that are dropped, and fewer steps.
TEST(Simulate, AdaptiveDepthIsNotTakenInByGroupsThatAreDroppedAtTheCap) {
  for (const auto& [law, cap] : {std::pair{"bimodal", 1}, {"pareto", 1}, {"lognormal", 2}}) {
    SCOPED_TRACE(law);
    Scenario scenario = short_scenario(law, 3);
    scenario.train_seconds = 5;
    scenario.max_staleness = cap;
    scenario.steps = 160;
    scenario.warm_up_steps = 60;
    const SimulationResult deep = simulate(scenario);
    scenario.max_ahead = 2;
    const SimulationResult best = simulate(scenario);
    EXPECT_LT(deep.trajectories_per_hour, best.trajectories_per_hour);
    scenario.max_ahead = kMostDepth;
    scenario.adaptive_depth = true;
    EXPECT_EQ(simulate(scenario).depth_found, 2);
  }
}

TEST(Simulate, ToolsThatFailCostTheirRetriesAndNoGroup) {
  Scenario scenario = short_scenario("lognormal", 2);
  const SimulationResult whole = simulate(scenario);
  scenario.tool_failure_share = 0.05;
  const SimulationResult failing = simulate(scenario);
  EXPECT_EQ(failing.trajectories, whole.trajectories);
  EXPECT_LT(failing.trajectories_per_hour, whole.trajectories_per_hour);
}

TEST(Simulate, TheSameScenarioGivesTheSameRun) {
  const Scenario scenario = short_scenario("pareto", 2);
  EXPECT_EQ(to_metrics(simulate(scenario)), to_metrics(simulate(scenario)));
  Scenario other = scenario;
  other.seed = 2;
  EXPECT_NE(to_metrics(simulate(scenario)), to_metrics(simulate(other)));
}

TEST(Simulate, TheCapHoldsUnderEveryActionAtItsPrice) {
  Scenario scenario = short_scenario("bimodal", 2);
  scenario.steps = 60;
  scenario.warm_up_steps = 10;
  const SimulationResult open = simulate(scenario);
  ASSERT_GT(open.lag_max, 3) << "the straggler of this law must be over the cap";
  scenario.max_staleness = 3;
  for (const char* action : {"drop", "cancel", "wait"}) {
    scenario.stale_action = action;
    const SimulationResult capped = simulate(scenario);
    EXPECT_LE(capped.lag_max, 3) << action;
    if (std::string(action) == "wait") {
      EXPECT_NEAR(capped.length_ratio, 1, 0.12);
      EXPECT_LT(capped.trajectories_per_hour, open.trajectories_per_hour);
      EXPECT_EQ(capped.stale_groups, 0);
    } else {
      EXPECT_LT(capped.length_ratio, 0.9) << "dropping the slow ones biases to the quick";
      EXPECT_GT(capped.stale_groups, 0);
    }
  }
  scenario.stale_action = "mask";
  EXPECT_GT(simulate(scenario).lag_max, 3) << "masking trains the group, not its old tokens";
}

TEST(Simulate, StrictOrderHasNoLagOverTheDepth) {
  Scenario scenario = short_scenario("lognormal", 2);
  scenario.batch_order = "strict";
  const SimulationResult strict = simulate(scenario);
  EXPECT_LE(strict.lag_max, 3);
  EXPECT_LT(strict.trajectories_per_hour, simulate(short_scenario("lognormal", 2)).trajectories_per_hour);
}

// At a barrier every episode is of the version it was dispatched under, and that is max_ahead behind.
TEST(Simulate, TheUpdateBoundarySaysWhereVersionsMeet) {
  for (const char* law : {"lognormal", "bimodal"}) {
    SCOPED_TRACE(law);
    Scenario scenario = short_scenario(law, 2);
    const SimulationResult token = simulate(scenario);
    scenario.update_boundary = "turn";
    const SimulationResult turn = simulate(scenario);
    scenario.update_boundary = "barrier";
    const SimulationResult barrier = simulate(scenario);
    EXPECT_EQ(barrier.lag_max, 2);
    EXPECT_EQ(barrier.turn_lag_mean, barrier.lag_mean);
    EXPECT_GT(token.lag_max, 2);
    EXPECT_LT(turn.turn_lag_mean, turn.lag_mean);
    EXPECT_LT(turn.trajectories_per_hour, token.trajectories_per_hour);
    EXPECT_LT(barrier.trajectories_per_hour, 0.8 * token.trajectories_per_hour);
  }
}

TEST(Simulate, RedundancyIsFastAndTrainsNoLongEpisodes) {
  Scenario scenario = short_scenario("lognormal", 0);
  scenario.max_concurrent_episodes = 256;
  const SimulationResult plain = simulate(scenario);
  scenario.extra_groups = 4;
  scenario.max_staleness = 0;
  scenario.stale_action = "cancel";
  const SimulationResult redundant = simulate(scenario);
  EXPECT_EQ(redundant.lag_max, 0);
  EXPECT_GT(redundant.trajectories_per_hour, 1.2 * plain.trajectories_per_hour);
  EXPECT_LT(redundant.length_ratio, 0.85);
  EXPECT_LT(redundant.longest_tenth_share, 0.03);
  EXPECT_EQ(redundant.stale_groups, scenario.steps * 4);
}

// What an update costs that keeps nothing, or only the tokens.
TEST(Simulate, WhatNewWeightsDoToEpisodesInFlightHasItsPrice) {
  Scenario scenario = short_scenario("lognormal", 2);
  scenario.endless = true;
  const SimulationResult keep = simulate(scenario);
  scenario.on_update = "recompute";
  scenario.prefill_tokens_per_second = 30'000;  // at 150,000 the trainer still has its batches in time
  const SimulationResult slow = simulate(scenario);
  scenario.prefill_tokens_per_second = 1e12;
  const SimulationResult fast = simulate(scenario);
  EXPECT_LT(slow.trajectories_per_hour, 0.98 * keep.trajectories_per_hour);
  EXPECT_NEAR(fast.trajectories_per_hour, keep.trajectories_per_hour, 1e-3 * keep.trajectories_per_hour);
  scenario.on_update = "restart";
  const SimulationResult restart = simulate(scenario);
  EXPECT_LT(restart.trajectories_per_hour, 0.8 * keep.trajectories_per_hour);
  EXPECT_LT(restart.lag_mean, keep.lag_mean);
  EXPECT_LE(restart.turn_lag_mean, restart.lag_mean) << "every turn is of the version of its restart";
}

TEST(Simulate, AnEndlessRunDoesNotWaitForItsLongestEpisodes) {
  Scenario scenario = short_scenario("lognormal", 4);
  const SimulationResult with_end = simulate(scenario);
  scenario.endless = true;
  const SimulationResult endless = simulate(scenario);
  EXPECT_EQ(endless.trajectories, with_end.trajectories);
  EXPECT_GT(endless.trajectories_per_hour, 1.05 * with_end.trajectories_per_hour);
}

TEST(Scenario, ContradictionsAreRefusedByName) {
  const TestFolder folder;
  const auto refusal = [&](const std::string& text) -> std::string {
    try {
      read_scenario(folder.write("scenario.toml", text), {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("max_ahead = 2\n[law]\nkind = \"pareto\"\n"), "");
  EXPECT_NE(refusal("max_ahead = 4\nmax_staleness = 2\n").find("max_staleness"), std::string::npos);
  EXPECT_NE(refusal("adaptive_depth = true\nextra_groups = 2\n").find("extra_groups"), std::string::npos);
  EXPECT_NE(refusal("batch_order = \"strict\"\nextra_groups = 2\nmax_ahead = 0\nmax_staleness = 0\n")
                .find("extra_groups"),
            std::string::npos);
  EXPECT_NE(refusal("steps = 30\n").find("warm_up_steps"), std::string::npos);
  EXPECT_NE(refusal("max_ahed = 4\n").find("did you mean max_ahead"), std::string::npos);
  EXPECT_NE(refusal("max_concurrent_episodes = 4\n").find("group_size"), std::string::npos);
}

}  // namespace
}  // namespace stoker
