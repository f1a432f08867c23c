#include "simulation/async_protocol.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "simulation/simulate.h"

namespace stoker {
namespace {

// Absolute checks of the protocol: a colocated synchronous step of constant episodes takes 66.7 + 30 + 30 +
// 15 seconds, a disaggregated one 66.7 + 30 + 60 + 5; no arm passes 256 trajectories in 65 seconds.
TEST(AsyncProtocol, ConstantEpisodesTakeTheTimesOfTheProtocol) {
  Scenario base = regime("R1");
  base.law.kind = "constant";
  base.steps = 8;
  base.warm_up_steps = 2;
  const std::vector<Arm> arms = protocol_arms();
  EXPECT_NEAR(simulate(arms[0].apply(base)).trajectories_per_hour,
              3600.0 * 256 / (4000.0 / 60 + 30 + 30 + 15), 1);
  EXPECT_NEAR(simulate(arms[1].apply(base)).trajectories_per_hour, 3600.0 * 256 / (4000.0 / 60 + 30 + 60 + 5),
              1);
  EXPECT_NEAR(ceilings(base).trainer, 14'178, 1);
}

TEST(AsyncProtocol, EveryArmAndRegimeIsAScenarioThatRuns) {
  for (const char* name : {"R1", "R2", "R3"}) {
    for (const Arm& arm : protocol_arms()) {
      Scenario scenario = arm.apply(regime(name));
      EXPECT_NO_THROW(Controller{controller_options(scenario)}) << name << ", " << arm.name;
      EXPECT_LE(scenario.max_ahead, scenario.max_staleness);
    }
  }
  EXPECT_THROW(regime("R4"), Error);
}

TEST(AsyncProtocol, TheBestDepthIsTheSmallestThatIsNearTheLargestThroughput) {
  EXPECT_EQ(best_depth({10, 50, 96, 98, 100}, 0.03), 3);
  EXPECT_EQ(best_depth({10, 50, 96, 98, 100}, 0.05), 2);
  EXPECT_EQ(best_depth({100, 100, 90}, 0), 0);
}

TEST(AsyncProtocol, ALawChangesItsOwnKeysOnly) {
  for (const NamedLaw& law : all_laws()) {
    Scenario scenario = law.apply(regime("R2"));
    EXPECT_EQ(scenario.law.kind, law.law.kind);
    EXPECT_EQ(scenario.growth, law.growth);
    EXPECT_EQ(scenario.tool_failure_share, law.tool_failure_share);
    EXPECT_EQ(scenario.tool_seconds, 5);
  }
}

TEST(AsyncProtocol, TheBootstrapIntervalHoldsTheMeanAndNarrows) {
  std::vector<double> few = {1.0, 1.2, 0.9, 1.1}, many;
  for (int i = 0; i < 25; ++i) many.insert(many.end(), few.begin(), few.end());
  const Interval wide = bootstrap_interval(few), narrow = bootstrap_interval(many);
  EXPECT_NEAR(wide.mean, 1.05, 1e-12);
  EXPECT_LT(wide.low, wide.mean);
  EXPECT_GT(wide.high, wide.mean);
  EXPECT_LT(narrow.high - narrow.low, (wide.high - wide.low) / 3);
  EXPECT_EQ(bootstrap_interval({2.0}).high, 2.0);
}

TEST(CappedArms, TryEveryActionAtThreeAndSixTimesTheDepth) {
  std::set<std::pair<std::string, int64_t>> caps;
  for (const Arm& arm : capped_arms()) {
    const Scenario scenario = arm.apply(regime("R1"));
    EXPECT_EQ(scenario.max_ahead, 4) << arm.name;
    caps.insert({scenario.stale_action, scenario.max_staleness});
  }
  std::set<std::pair<std::string, int64_t>> expected = {{"drop", 256}};
  for (const char* action : {"drop", "cancel", "wait", "mask"}) {
    for (const int64_t cap : {12, 24}) expected.insert({action, cap});
  }
  EXPECT_EQ(caps, expected);
  EXPECT_EQ(capped_arms().front().apply(regime("R1")).max_staleness, 256);
}

}  // namespace
}  // namespace stoker
