#include "simulation/protocol_controls.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

Scenario small(const std::string& law = "lognormal") {
  Scenario scenario;
  scenario.law.kind = law;
  scenario.steps = 24;
  scenario.warm_up_steps = 6;
  scenario.groups_per_step = 8;
  scenario.max_concurrent_episodes = 128;
  scenario.engine_tokens_per_second = 4266.5;
  scenario.endless = true;
  return scenario;
}

TEST(ProtocolControls, C1_DepthZeroIsPlainSynchronousTraining) {
  for (const char* law : {"constant", "lognormal", "pareto", "bimodal"}) {
    EXPECT_TRUE(is_plain_synchronous(small(law))) << law;
  }
  Scenario redundant = small();
  redundant.extra_groups = 2;
  redundant.max_staleness = 0;
  redundant.stale_action = "cancel";
  EXPECT_FALSE(is_plain_synchronous(redundant)) << "it trains others";
  Scenario failing = small();
  failing.tool_failure_share = 0.001;
  EXPECT_FALSE(is_plain_synchronous(failing)) << "it trains the same, and decides retries on the way";
}

TEST(ProtocolControls, C2_WithFrozenWeightsEveryArmPlaysTheSameEpisodes) {
  SerialParallel parallel;
  EXPECT_EQ(arms_that_play_others(protocol_arms(), small(), parallel), 0);
}

TEST(ProtocolControls, C2_WhatIsPlayedCountsAndNotWhatTheLawSays) {
  SerialParallel parallel;
  const std::vector<Arm> others = {{"as it is", [](Scenario s) { return s; }},
                                   {"other draws",
                                    [](Scenario s) {
                                      s.seed = 2;
                                      return s;
                                    }},
                                   {"longer turns",
                                    [](Scenario s) {
                                      s.tokens *= 1.01;
                                      return s;
                                    }},
                                   {"slower tools",
                                    [](Scenario s) {
                                      s.tool_seconds *= 1.01;
                                      return s;
                                    }},
                                   {"attempts that fail", [](Scenario s) {
                                      s.tool_failure_share = 0.01;
                                      return s;
                                    }}};
  EXPECT_EQ(arms_that_play_others(others, small(), parallel), 4);
}

// As the controls play it: long enough for Little's law, in the regimes' proportions.
Scenario of_depth(int depth, const std::string& law = "lognormal") {
  Scenario scenario = small(law);
  scenario.max_ahead = depth;
  scenario.steps = 120;
  scenario.warm_up_steps = 20;
  return scenario;
}

TEST(ProtocolControls, C3_TheMeanLagIsTheDepthWhereNothingElseKeepsGroupsBack) {
  for (int depth : {1, 2, 4}) {
    Scenario scenario = of_depth(depth);
    scenario.max_concurrent_episodes = 4096;
    scenario.engine_tokens_per_second = 1e6;
    const SimulationResult result = simulate(scenario);
    EXPECT_EQ(result.unblocked_share, 1);
    EXPECT_NEAR(result.outstanding_mean, depth, 1e-9);
    EXPECT_LT(little_difference(result, depth), 0.05);
  }
}

TEST(ProtocolControls, C3_TheMeanLagIsWhatIsOutstandingWhereSlotsRunOut) {
  Scenario scenario = of_depth(4);
  scenario.max_concurrent_episodes = 64;
  const SimulationResult result = simulate(scenario);
  EXPECT_LT(result.unblocked_share, 1);
  EXPECT_LT(result.outstanding_mean, 3.5);
  EXPECT_LT(little_difference(result, 4), 0.05);
}

// A controller whose depth is off by one keeps Little's law, at another depth than was asked for.
TEST(ProtocolControls, C3_ADepthThatIsOffByOneIsFound) {
  for (const char* law : {"constant", "lognormal", "pareto", "bimodal"}) {
    for (int depth : {1, 2, 4}) {
      const auto difference = [&](int played) {
        Scenario scenario = of_depth(played, law);
        // Constant episodes hold every slot whenever weights are published: fewer would hide the depth.
        if (scenario.law.kind == "constant") scenario.max_concurrent_episodes = 4096;
        return little_difference(simulate(scenario), depth);
      };
      EXPECT_LT(difference(depth), 0.05) << law << ", " << depth;
      for (int wrong : {depth - 1, depth + 1}) {
        EXPECT_GT(difference(wrong), 0.05) << law << ", " << wrong << " instead of " << depth;
      }
    }
  }
}

TEST(ProtocolControls, C3_EachOfItsPartsCounts) {
  const SimulationResult right{
      .lag_mean = 2, .outstanding_mean = 2, .outstanding_unblocked_mean = 2, .unblocked_share = 1};
  EXPECT_EQ(little_difference(right, 2), 0);
  SimulationResult wrong = right;
  wrong.lag_mean = 2.2;
  EXPECT_NEAR(little_difference(wrong, 2), 0.1, 1e-12);
  wrong.outstanding_mean = 2.2;
  EXPECT_NEAR(little_difference(wrong, 2), 0.1, 1e-12)
      << "it is as large as what is outstanding, not the depth";
  wrong.outstanding_unblocked_mean = 2.2;
  EXPECT_NEAR(little_difference(wrong, 2), 0.1, 1e-12);
  wrong.unblocked_share = 0;
  EXPECT_NEAR(little_difference(wrong, 2), 0.1, 1e-12) << "more than the depth, though slots were short";
  EXPECT_NEAR(little_difference(wrong, 3), 0, 1e-12) << "slots kept groups back";
  wrong = right;
  wrong.unblocked_share = 0.5;
  wrong.outstanding_unblocked_mean = 1;
  EXPECT_NEAR(little_difference(wrong, 2), 0.5, 1e-12);
}

TEST(ProtocolControls, C4_ASynchronousStepTakesItsLongestEpisode) {
  for (const char* law : {"constant", "lognormal", "bimodal"}) {
    Scenario scenario = small(law);
    EXPECT_LT(synchronous_step_difference(scenario), 1e-4) << law;
    scenario.engine_tokens_per_second /= 3;
    EXPECT_GT(synchronous_step_difference(scenario), 1e-2) << "an engine that is short of tokens";
  }
}

TEST(ProtocolControls, C6_OtherNamesChangeNothing) {
  for (const char* law : {"constant", "pareto"}) {
    for (const Arm& arm : protocol_arms()) {
      Scenario scenario = arm.apply(small(law));
      scenario.steps = 12;
      EXPECT_LT(relabelling_difference(scenario), 1e-6) << law << ", " << arm.name;
    }
  }
  Scenario failing = small();
  failing.tool_failure_share = 0.01;
  EXPECT_GT(relabelling_difference(failing), 1e-3) << "failures are drawn by name";
}

}  // namespace
}  // namespace stoker
