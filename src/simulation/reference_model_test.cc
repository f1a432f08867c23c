#include "simulation/reference_model.h"

#include <gtest/gtest.h>

#include <set>

#include "simulation/agreement.h"
#include "simulation/async_protocol.h"
#include "simulation/simulate.h"

namespace stoker {
namespace {

Scenario small(const Scenario& of_regime) {
  Scenario scenario = of_regime;
  scenario.steps = 20;
  scenario.warm_up_steps = 5;
  scenario.groups_per_step = 8;
  scenario.max_concurrent_episodes /= 4;
  scenario.engine_tokens_per_second /= 4;
  scenario.endless = true;
  return scenario;
}

// The absolute checks of the protocol: 161.7 s a synchronous step, 65 s between steps at the ceiling.
TEST(ReferenceModel, ASynchronousStepOfConstantEpisodesIsTheSumOfItsParts) {
  Scenario scenario = small(regime("R1"));
  scenario.law.kind = "constant";
  scenario.max_ahead = 0;
  EXPECT_NEAR(reference_model(scenario).trajectories_per_hour, 3600 * 64 / (4000.0 / 60 + 30 + 60 + 5), 1e-6);
  scenario.max_ahead = 4;
  scenario.max_concurrent_episodes = 4096;
  scenario.engine_tokens_per_second = 1e9;
  EXPECT_NEAR(reference_model(scenario).trajectories_per_hour, 3600 * 64 / 65.0, 1e-6);
  EXPECT_NEAR(reference_model(scenario).lag_mean, 4, 1e-9);
}

TEST(ReferenceModel, TheControllerDoesAsItSays) {
  for (const char* name : {"R1", "R2"}) {
    for (const Arm& arm : protocol_arms()) {
      for (const NamedLaw& law : protocol_laws()) {
        if (law.name != "logn 1" && law.name != "bimodal") continue;
        const Scenario scenario = arm.apply(small(law.apply(regime(name))));
        if (!reference_model_covers(scenario)) continue;
        const ReferenceResult model = reference_model(scenario);
        const SimulationResult controller = simulate(scenario);
        EXPECT_NEAR(controller.trajectories_per_hour / model.trajectories_per_hour, 1, 0.04)
            << name << ", " << arm.name << ", " << law.name;
      }
    }
  }
}

TEST(ReferenceModel, DropsTheLongOnesWhereTheQueueIsOneBatch) {
  Scenario scenario = small(regime("R1"));
  scenario.law.kind = "bimodal";
  scenario.max_ahead = 2;
  scenario.max_staleness = 2;
  scenario.batch_order = "completion";
  const ReferenceResult model = reference_model(scenario, ReferenceRules::kPublished);
  EXPECT_LT(model.length_ratio, 0.65) << "all that is left is the nine fast tenths";
  EXPECT_LE(model.lag_mean, 2);
}

TEST(ReferenceModel, SaysWhatItHasNoRulesFor) {
  Scenario scenario = small(regime("R1"));
  EXPECT_TRUE(reference_model_covers(scenario));
  scenario.stale_action = "mask";
  EXPECT_FALSE(reference_model_covers(scenario));
  EXPECT_FALSE(reference_model_covers(adaptive(regime("R1"))));
  EXPECT_FALSE(reference_model_covers(regime("R1"))) << "the end of a run is the orchestrator's";
}

TEST(PublishedPredictions, AreOfArmsAndLawsOfTheProtocol) {
  std::set<std::string> arms, laws;
  for (const Arm& arm : protocol_arms()) arms.insert(arm.name);
  for (const NamedLaw& law : protocol_laws()) laws.insert(law.name);
  for (const char* name : {"R1", "R2", "R3"}) {
    for (const auto& [arm, by_law] : published_predictions(name)) {
      EXPECT_TRUE(arms.contains(arm)) << arm;
      for (const auto& [law, speed] : by_law) EXPECT_TRUE(laws.contains(law)) << law;
      EXPECT_EQ(by_law.size(), laws.size());
    }
  }
  EXPECT_EQ(published_predictions("R2").at("eta 4").at("logn 1"), 3.05);
}

}  // namespace
}  // namespace stoker
