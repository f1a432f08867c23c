#include "simulation/reference_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

// On the same draws, run for run: also where half a token sends a run another way.
TEST(ReferenceModel, TheControllerDoesAsItSays) {
  for (const char* name : {"R1", "R2"}) {
    for (const Arm& arm : protocol_arms()) {
      for (const NamedLaw& law : protocol_laws()) {
        if (law.name != "logn 1" && law.name != "bimodal") continue;
        Scenario scenario = arm.apply(small(law.apply(regime(name))));
        if (!reference_model_covers(scenario)) continue;
        for (scenario.seed = 1; scenario.seed <= 2; ++scenario.seed) {
          const SimulationResult played = simulate(scenario);
          const ReferenceResult controller{.trajectories_per_hour = played.trajectories_per_hour,
                                           .lag_mean = played.lag_mean,
                                           .length_ratio = played.length_ratio};
          EXPECT_LT(compare(controller, reference_model(scenario)).most(), 1e-3)
              << name << ", " << arm.name << ", " << law.name << ", seed " << scenario.seed;
        }
      }
    }
  }
}

// By how much throughput changes at most, over some seeds, when turns are fractions of tokens.
double most_of_fractions(Scenario scenario) {
  ReferenceRules fractions;
  fractions.whole_tokens = false;
  double most = 0;
  for (scenario.seed = 1; scenario.seed <= 6; ++scenario.seed) {
    most = std::max(
        most, std::abs(compare(reference_model(scenario, fractions), reference_model(scenario)).throughput));
  }
  return most;
}

TEST(ReferenceModel, HalfATokenSendsARestartedRunAnotherWay) {
  Scenario scenario = small(regime("R2"));
  scenario.steps = 120;
  EXPECT_LT(most_of_fractions(scenario), 1e-3);
  scenario.on_update = "restart";
  EXPECT_GT(most_of_fractions(scenario), 1e-2);
}

TEST(ReferenceModel, DropsTheLongOnesWhereTheQueueIsOneBatch) {
  Scenario scenario = small(regime("R1"));
  scenario.law.kind = "bimodal";
  scenario.max_ahead = 2;
  scenario.max_staleness = 2;
  scenario.batch_order = "completion";
  const ReferenceResult model = reference_model(scenario, kPublishedRules);
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
  EXPECT_EQ(published_predictions("R2").at("eta 4").at("logn 1").speed, 3.05);
  EXPECT_EQ(published_predictions("R2").at("eta 4").at("logn 1").length, 1);
  EXPECT_EQ(published_predictions("R3").at("discard > 2").at("logn 2").length, 0.38);
  EXPECT_EQ(published_predictions("R1").at("eta 4, cancel > 12").at("bimodal").lag, 2.9);
  EXPECT_EQ(published_predictions("R1").at("eta 4").at("constant").lag, std::nullopt);
}

TEST(Agreement, IsTheShareByWhichEachOfThreeIsOff) {
  const ReferenceResult one{.trajectories_per_hour = 110, .lag_mean = 1.9, .length_ratio = 0.99},
      other{.trajectories_per_hour = 100, .lag_mean = 2, .length_ratio = 1};
  const Agreement agreement = compare(one, other);
  EXPECT_NEAR(agreement.throughput, 0.1, 1e-12);
  EXPECT_NEAR(agreement.lag, -0.05, 1e-12);
  EXPECT_NEAR(agreement.length, -0.01, 1e-12);
  EXPECT_NEAR(agreement.most(), 0.1, 1e-12);
  EXPECT_NEAR(agreement.worst({.throughput = 0.05, .lag = 0.06, .length = 0.001}).lag, 0.06, 1e-12);
  EXPECT_NEAR(compare({.lag_mean = 0.3}, {}).lag, 0.3, 1e-12) << "synchronous runs have no lag at all";
}

TEST(Agreement, APublishedLagIsRounded) {
  const ReferenceResult colocated{.trajectories_per_hour = 50};
  ReferenceResult result{.trajectories_per_hour = 100, .lag_mean = 2.04, .length_ratio = 0.5};
  const Prediction published{.speed = 2, .length = 0.5, .lag = 2.0};
  EXPECT_NEAR(compare(result, colocated, published).most(), 0, 1e-12);
  result.lag_mean = 2.15;
  EXPECT_NEAR(compare(result, colocated, published).lag, 0.05, 1e-12);
  result.lag_mean = 1.85;
  EXPECT_NEAR(compare(result, colocated, published).lag, -0.05, 1e-12);
  EXPECT_EQ(compare(result, colocated, {.speed = 2, .length = 0.5}).lag, 0) << "none is published";
}

TEST(PublishedAblations, AreOfArmsThatAreComparedAndChangeSomething) {
  const Predictions predictions = published_predictions("R1");
  for (const Ablation& ablation : published_ablations()) {
    EXPECT_TRUE(predictions.contains(ablation.arm)) << ablation.arm;
    for (const Arm& arm : protocol_arms()) {
      if (arm.name != ablation.arm) continue;
      const Scenario scenario = arm.apply(small(all_laws()[2].apply(regime("R1"))));
      const ReferenceResult published = reference_model(scenario, kPublishedRules);
      EXPECT_GT(compare(reference_model(scenario, ablation.rules), published).most(), 0.01) << ablation.arm;
    }
  }
}

}  // namespace
}  // namespace stoker
