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
}

TEST(ProtocolControls, C2_WithFrozenWeightsEveryArmTrainsTheSameEpisodes) {
  SerialParallel parallel;
  Scenario scenario = small();
  EXPECT_EQ(arms_that_train_others(protocol_arms(), scenario, parallel), 0);
  const std::vector<Arm> other = {{"as it is", [](Scenario s) { return s; }}, {"other draws", [](Scenario s) {
                                                                                 s.seed = 2;
                                                                                 return s;
                                                                               }}};
  EXPECT_EQ(arms_that_train_others(other, scenario, parallel), 1);
}

TEST(ProtocolControls, C3_TheMeanLagIsWhatIsOutstanding) {
  for (int depth : {1, 2, 4}) {
    Scenario scenario = small();
    scenario.max_ahead = depth;
    scenario.steps = 120;
    scenario.warm_up_steps = 20;
    scenario.max_concurrent_episodes = 4096;
    scenario.engine_tokens_per_second = 1e6;
    const SimulationResult result = simulate(scenario);
    EXPECT_NEAR(result.outstanding_mean, depth, 1e-9) << "nothing but the depth keeps groups back";
    EXPECT_LT(little_difference(result, depth), 0.05);
  }
  SimulationResult late{.lag_mean = 2.2, .outstanding_mean = 2};
  EXPECT_NEAR(little_difference(late, 2), 0.1, 1e-12);
  late.outstanding_mean = 2.2;
  EXPECT_NEAR(little_difference(late, 2), 0.1, 1e-12) << "it is as large as the depth, the lag is not";
  EXPECT_NEAR(little_difference(late, 3), 0, 1e-12);
}

TEST(ProtocolControls, C4_ASynchronousStepTakesItsLongestEpisode) {
  for (const char* law : {"constant", "lognormal", "bimodal"}) {
    Scenario scenario = small(law);
    EXPECT_LT(synchronous_step_difference(scenario), 1e-4) << law;
    scenario.engine_tokens_per_second /= 3;
    EXPECT_GT(synchronous_step_difference(scenario), 1e-2) << "an engine that is short of tokens";
  }
}

TEST(ProtocolControls, C6_NamesOfMembersChangeNothing) {
  for (const char* law : {"constant", "lognormal", "pareto"}) {
    for (const char* action : {"drop", "cancel", "wait"}) {
      Scenario scenario = small(law);
      scenario.max_ahead = 2;
      scenario.max_staleness = 3;
      scenario.stale_action = action;
      EXPECT_LT(relabelling_difference(scenario), 1e-6) << law << ", " << action;
    }
  }
}

}  // namespace
}  // namespace stoker
