// What was sampled is what is trained: log-probabilities recorded by the engine against those of the Learner.

#include <gtest/gtest.h>

#include <string>

#include "async/real_executor.h"
#include "async/run.h"
#include "compute/cpu/cpu_learner.h"
#include "engine/engine_test_support.h"
#include "engine/native_engine.h"
#include "model/family.h"

namespace stoker {
namespace {

// The prompt of each group once, its samples as children that predict their own tokens.
Batch training_batch(const std::vector<GenerateRequest>& requests, const std::vector<Outcome>& outcomes,
                     size_t group_size) {
  Batch batch;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (i % group_size == 0) batch.segments.push_back({.tokens = requests[i].tokens});
    const auto prompt = static_cast<int32_t>(batch.segments.size() - 1 - i % group_size);
    const std::vector<int32_t> ids = outcomes[i].ids();
    const auto own = static_cast<int32_t>(batch.segments.size());
    batch.segments.push_back({.tokens = ids, .parent = prompt});
    const float temperature = requests[i].sampling.temperature;
    for (size_t t = 0; t < ids.size(); ++t) {
      batch.segment.push_back(t == 0 ? prompt : own);
      batch.offset.push_back(static_cast<int32_t>(t == 0 ? requests[i].tokens.size() - 1 : t - 1));
      batch.target.push_back(ids[t]);
      batch.temperature.push_back(temperature == 0 ? 1 : temperature);
    }
  }
  return batch;
}

void expect_bits_of_learner(const std::vector<Outcome>& outcomes, const std::vector<float>& log_probability) {
  size_t prediction = 0;
  for (const Outcome& outcome : outcomes) {
    for (const SampledToken& token : outcome.tokens) {
      ASSERT_EQ(token.log_probability, log_probability[prediction]) << "prediction " << prediction;
      ++prediction;
    }
  }
  EXPECT_EQ(prediction, log_probability.size());
}

TEST(Agreement, SampledLogProbabilitiesAreTheLearnersBits) {
  constexpr size_t kGroup = 4;
  RandomStream random(StreamKey{.run_seed = 31});
  std::vector<GenerateRequest> requests;
  for (uint64_t group = 0; group < 12; ++group) {
    const GenerateRequest first = random_request(random, group);
    for (uint32_t sample = 0; sample < kGroup; ++sample) {
      requests.push_back(first);
      requests.back().stream.sample = sample;
    }
  }
  for (const int threads : {1, 2}) {
    SCOPED_TRACE("threads " + std::to_string(threads));
    RealExecutor executor;
    ComputePool pool(threads);
    NativeEngine engine(executor, pool, test_weights(3), {.max_batch = 20, .prefill_chunk = 33});
    cpu::CpuLearner learner(*test_weights(3), {}, test_model_config().vocab_size, pool);
    const std::vector<Outcome> outcomes = run(executor, generate_all(engine, requests));
    const Scores scores = run(executor, learner.score(training_batch(requests, outcomes, kGroup)));
    expect_bits_of_learner(outcomes, scores.log_probability);
  }
}

// Fresh weights of a family in small sizes; layers slide where the family has such layers.
WeightsPtr family_weights(const ModelFamily& family) {
  ModelConfig config = test_model_config();
  apply_family(family, config);
  config.attn_logit_softcapping = family.attn_logit_softcapping / 10;
  config.final_logit_softcapping = family.final_logit_softcapping;
  config.rope_local_theta = family.rope_local_theta;
  if (family.sliding_window > 0) {
    config.sliding_window = 23;
    config.sliding_layers = {true, family.global_every == 0};
  }
  Weights weights = initialize_weights(config, 4);
  for (float& value : weights.tensor("lm_head.weight")) value *= 40;
  return std::make_shared<const Weights>(std::move(weights));
}

TEST(Agreement, OfEveryFamily) {
  constexpr size_t kGroup = 3;
  RandomStream random(StreamKey{.run_seed = 33});
  std::vector<GenerateRequest> requests;
  for (uint64_t group = 0; group < 4; ++group) {
    const GenerateRequest first = random_request(random, group);
    for (uint32_t sample = 0; sample < kGroup; ++sample) {
      requests.push_back(first);
      requests.back().stream.sample = sample;
    }
  }
  for (const ModelFamily& family : model_families()) {
    SCOPED_TRACE(family.model_type);
    const WeightsPtr weights = family_weights(family);
    for (const ComputeType type : {ComputeType::kFloat32, ComputeType::kBfloat16}) {
      SCOPED_TRACE(to_string(type));
      RealExecutor executor;
      ComputePool pool(2);
      NativeEngine engine(executor, pool, weights,
                          {.max_batch = 7, .prefill_chunk = 33, .compute_type = type});
      cpu::CpuLearner learner(*weights, {}, weights->config().vocab_size, pool, type);
      const std::vector<Outcome> outcomes = run(executor, generate_all(engine, requests));
      const Scores scores = run(executor, learner.score(training_batch(requests, outcomes, kGroup)));
      expect_bits_of_learner(outcomes, scores.log_probability);
    }
  }
}

TEST(Agreement, WGT_01_AfterAnOptimizerStepAndAPublication) {
  RandomStream random(StreamKey{.run_seed = 32});
  std::vector<GenerateRequest> requests;
  for (uint64_t i = 0; i < 10; ++i) requests.push_back(random_request(random, i));
  RealExecutor executor;
  ComputePool pool(2);
  cpu::CpuLearner learner(*test_weights(3), {}, test_model_config().vocab_size, pool);
  NativeEngine engine(executor, pool, run(executor, learner.snapshot()), {});
  std::vector<Outcome> before = run(executor, generate_all(engine, requests));

  ForwardResult forward = run(executor, learner.forward(training_batch(requests, before, 1)));
  const Coefficients push{.log_probability =
                              std::vector<float>(forward.scores.log_probability.size(), -0.1f)};
  run(executor, learner.backward(std::move(forward.tape), push));
  EXPECT_EQ(run(executor, learner.step(0.01)).version, 4);
  ASSERT_TRUE(run(executor, engine.publish(run(executor, learner.snapshot()))).ok());

  const std::vector<Outcome> after = run(executor, generate_all(engine, requests));
  size_t changed = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    changed += !same_sample(before[i], after[i]);
    for (const SampledToken& token : after[i].tokens) EXPECT_TRUE(token.version == 4 && !token.mixed);
  }
  EXPECT_GT(changed, 8u) << "the step must matter for this to test anything";
  const Scores scores = run(executor, learner.score(training_batch(requests, after, 1)));
  expect_bits_of_learner(after, scores.log_probability);
}

}  // namespace
}  // namespace stoker
