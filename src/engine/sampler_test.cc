#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/random.h"
#include "compute/cpu/decoder.h"

namespace stoker {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

SampledId draw(const std::vector<float>& logits, const SamplingParameters& parameters, double uniform) {
  Sampler sampler;
  return *sampler.sample(logits, parameters, uniform);
}

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// Every id that some uniform draws.
std::set<int32_t> support(const std::vector<float>& logits, const SamplingParameters& parameters) {
  std::set<int32_t> ids;
  for (int i = 0; i < 2000; ++i) ids.insert(draw(logits, parameters, i / 2000.0).id);
  return ids;
}

// The slow plain twin: sorts everything, sums in double.
std::vector<int32_t> kept_twin(const std::vector<float>& logits, const SamplingParameters& parameters) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> weight;
  for (float logit : logits) {
    weight.push_back(std::exp((static_cast<double>(logit) - largest) / parameters.temperature));
  }
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  if (parameters.top_k > 0 && parameters.top_k < static_cast<int32_t>(order.size())) {
    order.resize(static_cast<size_t>(parameters.top_k));
  }
  double total = 0;
  for (int32_t id : order) total += weight[id];
  size_t count = 0;
  for (double mass = 0; count < order.size() && mass < parameters.top_p * total; ++count)
    mass += weight[order[count]];
  if (parameters.top_p < 1) order.resize(count);
  std::erase_if(order, [&](int32_t id) { return weight[id] < parameters.min_p; });
  std::sort(order.begin(), order.end());
  return order;
}

int32_t draw_twin(const std::vector<float>& logits, const SamplingParameters& parameters, double uniform) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  const std::vector<int32_t> kept = kept_twin(logits, parameters);
  double total = 0;
  for (int32_t id : kept)
    total += std::exp((static_cast<double>(logits[id]) - largest) / parameters.temperature);
  double running = 0;
  for (int32_t id : kept) {
    running += std::exp((static_cast<double>(logits[id]) - largest) / parameters.temperature);
    if (running > uniform * total) return id;
  }
  return kept.back();
}

TEST(Sampler, SMP_01_LogProbabilityIsOfTheTemperedLogits) {
  EXPECT_NEAR(draw({2, 1, 0}, {.temperature = 0.5f}, 0).log_probability, -0.142932f, 1e-6);
  EXPECT_NEAR(draw({2, 1, 0}, {.temperature = 1}, 0).log_probability, -0.407606f, 1e-6);
  EXPECT_NEAR(draw({2, 1, 0}, {.temperature = 0.9f}, 0).log_probability, -0.362948f, 1e-6);
}

TEST(Sampler, SMP_03_TopPLeavesTheLogProbabilityFull) {
  const std::vector<float> logits = {2, 1, 0};
  EXPECT_EQ(support(logits, {.top_p = 0.9f}), (std::set<int32_t>{0, 1}));
  EXPECT_NEAR(draw(logits, {.top_p = 0.9f}, 0).log_probability, -0.407606f, 1e-6);
}

TEST(Sampler, SMP_05_TheCrossingTokenIsKept) {
  EXPECT_EQ(support(logits_of({.4, .3, .2, .1}), {.top_p = 0.8f}), (std::set<int32_t>{0, 1, 2}));
  EXPECT_EQ(support(logits_of({.5, .41, .09}), {.top_p = 0.9f}), (std::set<int32_t>{0, 1}));
  EXPECT_EQ(support(logits_of({.1, .2, .3, .4}), {.top_p = 1e-6f}), (std::set<int32_t>{3}));
}

TEST(Sampler, SMP_07_TemperatureZeroIsArgmaxWithALogProbabilityOfOne) {
  const SampledId sampled = draw({1, 2}, {.temperature = 0, .top_p = 0.9f}, 0.999);
  EXPECT_EQ(sampled.id, 1);
  EXPECT_NEAR(sampled.log_probability, -0.313262f, 1e-6);
  EXPECT_EQ(draw({3, 7, 7, 1}, {.temperature = 0}, 0.5).id, 1) << "the lowest id among equals";
}

TEST(Sampler, FiltersCutTheSupport) {
  const std::vector<float> logits = logits_of({.1, .4, .2, .3});
  EXPECT_EQ(support(logits, {.top_k = 1}), (std::set<int32_t>{1}));
  EXPECT_EQ(support(logits, {.top_k = 2}), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(support(logits, {.top_k = 100}), (std::set<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(support(logits, {.min_p = 0.45f}), (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(support(logits, {.min_p = 1}), (std::set<int32_t>{1}));
  // After top-k the rest weighs .7: the heaviest alone holds .57 of it.
  EXPECT_EQ(support(logits, {.top_k = 2, .top_p = 0.55f}), (std::set<int32_t>{1}));
  EXPECT_EQ(support({1, 1, 1, 1}, {.top_k = 2}), (std::set<int32_t>{0, 1})) << "the lower ids among equals";
  EXPECT_EQ(support({1, 1, 1, 1}, {.top_p = 0.5f}), (std::set<int32_t>{0, 1}));
}

TEST(Sampler, AgreesWithThePlainTwin) {
  RandomStream random(StreamKey{.run_seed = 5});
  Sampler sampler;  // one object for all sizes: scratch of a larger call must not leak into a smaller one
  int disagreements = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<float> logits(1 + random.below(700));
    for (float& logit : logits) logit = static_cast<float>(random.normal() * 3);
    if (trial % 5 == 0) logits[random.below(logits.size())] = -kInfinity;
    if (logits.size() == 1) logits[0] = 0;
    SamplingParameters parameters{.temperature = static_cast<float>(0.2 + 1.5 * random.uniform())};
    if (random.below(2) == 0) parameters.top_k = static_cast<int32_t>(random.below(20));
    if (random.below(2) == 0) parameters.top_p = static_cast<float>(0.05 + 0.95 * random.uniform());
    if (random.below(2) == 0) parameters.min_p = static_cast<float>(0.3 * random.uniform());
    const double uniform = random.uniform();
    const SampledId sampled = *sampler.sample(logits, parameters, uniform);
    disagreements += sampled.id != draw_twin(logits, parameters, uniform);
    EXPECT_EQ(sampled.log_probability, cpu::log_probability(logits, parameters.temperature, sampled.id));
  }
  // Only a draw within float32 rounding of a boundary may fall on the other side.
  EXPECT_LE(disagreements, 2);
}

TEST(Sampler, DrawsInProportion) {
  const std::vector<double> probabilities = {.05, .3, .15, .5};
  const std::vector<float> logits = logits_of(probabilities);
  std::vector<int> count(4);
  constexpr int kDraws = 40'000;
  Sampler sampler;
  for (int i = 0; i < kDraws; ++i) {
    ++count[sampler.sample(logits, {}, random_uniform(StreamKey{.run_seed = 3}, i))->id];
  }
  for (int id = 0; id < 4; ++id) {
    const double sigma = std::sqrt(kDraws * probabilities[id] * (1 - probabilities[id]));
    EXPECT_NEAR(count[id], kDraws * probabilities[id], 4 * sigma) << "id " << id;
  }
}

TEST(Sampler, SMP_11_OneSeedManySamplesAreManyStreams) {
  std::vector<float> logits(50, 0.0f);
  Sampler sampler;
  std::set<std::vector<int32_t>> sequences;
  for (uint32_t sample = 0; sample < 32; ++sample) {
    std::vector<int32_t> ids;
    for (uint64_t position = 0; position < 12; ++position) {
      const StreamKey stream{.run_seed = 7, .sample = sample};
      ids.push_back(sampler.sample(logits, {}, random_uniform(stream, position))->id);
    }
    sequences.insert(ids);
  }
  EXPECT_EQ(sequences.size(), 32u);
}

TEST(Sampler, MaskedIdsAreNeverDrawn) {
  EXPECT_EQ(support({-kInfinity, 1, -kInfinity, 1}, {}), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(support({-kInfinity, 1, -kInfinity, 1}, {.top_k = 3}), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(draw({-kInfinity, 1}, {.temperature = 0}, 0).id, 1);
}

// What change_logits means, one id at a time.
std::vector<float> changed_twin(std::vector<float> logits, const SamplingParameters& parameters,
                                const std::vector<int32_t>& tokens, int32_t sampled,
                                const std::set<int32_t>& masked) {
  for (int32_t id = 0; id < static_cast<int32_t>(logits.size()); ++id) {
    float& logit = logits[id];
    if (std::count(tokens.begin(), tokens.end(), id) > 0) {
      logit = logit > 0 ? logit / parameters.repetition_penalty : logit * parameters.repetition_penalty;
    }
    const auto uses = std::count(tokens.end() - sampled, tokens.end(), id);
    if (uses > 0) {
      logit -= parameters.presence_penalty + parameters.frequency_penalty * static_cast<float>(uses);
    }
    for (const LogitBias& bias : parameters.logit_bias) {
      if (bias.id == id) logit += bias.bias;
    }
    const auto& forbidden = parameters.forbidden_tokens;
    if (masked.contains(id) || std::find(forbidden.begin(), forbidden.end(), id) != forbidden.end()) {
      logit = -kInfinity;
    }
  }
  return logits;
}

class SetMask final : public TokenMask {
 public:
  explicit SetMask(std::set<int32_t> ids) : ids_(std::move(ids)) {}
  void forbid(std::span<const int32_t>, int32_t, std::span<uint8_t> allowed) const override {
    for (const int32_t id : ids_) allowed[id] = 0;
  }

 private:
  std::set<int32_t> ids_;
};

TEST(Sampler, ChangedLogitsAreThoseOfThePlainTwin) {
  RandomStream random(StreamKey{.run_seed = 6});
  Sampler sampler;
  const auto below = [&](int n) { return static_cast<int32_t>(random.below(static_cast<uint64_t>(n))); };
  for (int trial = 0; trial < 500; ++trial) {
    const int size = 5 + below(60);
    std::vector<float> logits(size);
    for (float& logit : logits) logit = static_cast<float>(random.normal() * 2);
    std::vector<int32_t> tokens(below(40));
    for (int32_t& token : tokens) token = below(size + 3);  // ids without a logit occur
    const int32_t sampled = below(static_cast<int>(tokens.size()) + 1);
    SamplingParameters parameters{.temperature = trial % 4 == 0 ? 0.0f : 0.8f};
    if (below(2) == 0) parameters.repetition_penalty = static_cast<float>(0.5 + random.uniform());
    if (below(2) == 0) parameters.presence_penalty = static_cast<float>(random.normal());
    if (below(2) == 0) parameters.frequency_penalty = static_cast<float>(random.normal());
    if (below(2) == 0) parameters.logit_bias = {{below(size), 2.0f}, {below(size), -1.0f}};
    if (below(2) == 0) parameters.forbidden_tokens = {below(size)};
    std::set<int32_t> masked;
    if (below(2) == 0) masked = {below(size), below(size)};
    const SetMask mask(masked);
    const double uniform = random.uniform();
    const Result<SampledId> result =
        sampler.sample(logits, parameters, uniform, {tokens, sampled, masked.empty() ? nullptr : &mask});
    ASSERT_TRUE(result.ok());
    const std::vector<float> changed = changed_twin(logits, parameters, tokens, sampled, masked);
    const SampledId expected = draw(changed, {.temperature = parameters.temperature}, uniform);
    EXPECT_EQ(result->id, expected.id) << "trial " << trial;
    EXPECT_EQ(result->drawn_log_probability, expected.drawn_log_probability) << "trial " << trial;
    const float temperature = parameters.temperature == 0 ? 1 : parameters.temperature;
    EXPECT_EQ(result->log_probability, cpu::log_probability(logits, temperature, result->id));
  }
}

TEST(Sampler, DrawnLogProbabilityIsOverTheKeptSet) {
  const std::vector<float> logits = logits_of({.1, .4, .2, .3});
  EXPECT_NEAR(draw(logits, {.top_k = 2}, 0).drawn_log_probability, std::log(.4 / .7), 1e-6);
  EXPECT_NEAR(draw(logits, {.top_p = 0.8f}, 0.99).drawn_log_probability, std::log(.3 / .9), 1e-6);
  EXPECT_NEAR(draw(logits, {.min_p = 0.6f}, 0.99).drawn_log_probability, std::log(.3 / .7), 1e-6);
  EXPECT_EQ(draw(logits, {.top_k = 1}, 0.5).drawn_log_probability, 0);
  EXPECT_EQ(draw(logits, {.temperature = 0}, 0.5).drawn_log_probability, 0);
  const SampledId plain = draw(logits, {.temperature = 0.7f}, 0.5);
  EXPECT_EQ(plain.drawn_log_probability, plain.log_probability);
  const SampledId forbidden = draw(logits, {.forbidden_tokens = {1}}, 0.99);
  EXPECT_NEAR(forbidden.drawn_log_probability, std::log(.3 / .6), 1e-6);
  EXPECT_NEAR(forbidden.log_probability, std::log(.3), 1e-6);
}

TEST(Sampler, ReportsTheLikeliestIdsOfTheModel) {
  const std::vector<float> logits = logits_of({.1, .4, .2, .3});
  const SampledId sampled =
      draw(logits, {.temperature = 0.5f, .forbidden_tokens = {1}, .top_log_probabilities = 3}, 0);
  ASSERT_EQ(sampled.top.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const int32_t expected[] = {1, 3, 2};
    EXPECT_EQ(sampled.top[i].id, expected[i]);
    EXPECT_EQ(sampled.top[i].log_probability, cpu::log_probability(logits, 0.5f, expected[i]));
  }
  EXPECT_EQ(draw({1, 1, 1}, {.top_log_probabilities = 9}, 0).top.size(), 3u);
  EXPECT_EQ(draw({1, 1, 1}, {.top_log_probabilities = 1}, 0).top[0].id, 0) << "the lower among equals";
  EXPECT_TRUE(draw({1, 1, 1}, {}, 0).top.empty());
}

TEST(Sampler, NoTokenLeftIsAFailure) {
  Sampler sampler;
  const std::vector<float> logits = {1, 2};
  for (const float temperature : {0.0f, 1.0f}) {
    const Result<SampledId> result =
        sampler.sample(logits, {.temperature = temperature, .forbidden_tokens = {0, 1}}, 0.5);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.failure().name(), "policy.no_token_allowed");
  }
  EXPECT_EQ(sampler.sample(logits, {}, 0.9)->id, 1) << "nothing is left of the refused call";
}

TEST(Sampler, ExtremeDrawsAndTemperaturesStayInside) {
  std::vector<float> logits(1000, -1000.0f);
  logits[3] = 80;
  logits[900] = 80;
  const double almost_one = std::nextafter(1.0, 0.0);
  EXPECT_EQ(draw(logits, {}, 0).id, 3);
  EXPECT_EQ(draw(logits, {}, almost_one).id, 900);
  EXPECT_EQ(draw(logits, {.temperature = 1e-4f}, almost_one).id, 900);
  EXPECT_EQ(draw(logits, {.top_p = 0.999f}, almost_one).id, 900);
  EXPECT_TRUE(std::isfinite(draw(logits, {.temperature = 1e-4f}, 0.5).log_probability));
  EXPECT_TRUE(std::isfinite(draw(logits, {.temperature = 1e4f}, 0.5).log_probability));
}

TEST(Sampler, BrokenLogitsAreAFailureThatNamesTheId) {
  Sampler sampler;
  for (const float temperature : {0.0f, 1.0f}) {
    for (const float broken : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
      std::vector<float> logits(40, 1.0f);
      logits[17] = broken;
      const Result<SampledId> result = sampler.sample(logits, {.temperature = temperature}, 0.5);
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.failure().name(), "infrastructure.logits_not_finite");
      EXPECT_NE(result.failure().message.find("token 17"), std::string::npos);
    }
  }
  EXPECT_FALSE(sampler.sample(std::vector<float>(8, -kInfinity), {}, 0.5).ok());
}

}  // namespace
}  // namespace stoker
