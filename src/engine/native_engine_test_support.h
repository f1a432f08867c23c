#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "async/compute_pool.h"
#include "async/run.h"
#include "async/simulated_executor.h"
#include "async/sleep.h"
#include "engine/engine_test_support.h"
#include "engine/native_engine.h"

// What the tests of the native engine compare with.
namespace stoker {

// Memory for so many blocks of the test model.
inline int64_t cache_bytes(int64_t blocks) {
  return blocks * KvCache::block_bytes(test_model_config(), ComputeType::kFloat32);
}

// What each request gives when nothing else is there: one at a time, no sharing, the prompt in one piece.
inline std::vector<Outcome> alone(const std::vector<GenerateRequest>& requests, const WeightsPtr& weights) {
  SimulatedExecutor executor(1);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, weights,
                      {.max_batch = 1, .prefill_chunk = 1000, .prefix_cache = false});
  std::vector<Outcome> outcomes;
  for (const GenerateRequest& request : requests) {
    outcomes.push_back(run(executor, generate_all(engine, {request})).front());
  }
  return outcomes;
}

inline void expect_same(const std::vector<Outcome>& actual, const std::vector<Outcome>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_TRUE(actual[i].completion.has_value()) << "request " << i;
    EXPECT_TRUE(same_sample(actual[i], expected[i])) << "request " << i;
    EXPECT_EQ(actual[i].completion->stop_reason, expected[i].completion->stop_reason) << "request " << i;
  }
}

inline std::vector<GenerateRequest> random_requests(uint64_t seed, size_t count) {
  RandomStream random(StreamKey{.run_seed = seed});
  std::vector<GenerateRequest> requests;
  for (size_t i = 0; i < count; ++i) requests.push_back(random_request(random, i));
  return requests;
}

// Groups of four with one prompt each.
inline std::vector<GenerateRequest> grouped_requests(uint64_t seed, size_t groups) {
  std::vector<GenerateRequest> requests;
  for (const GenerateRequest& first : random_requests(seed, groups)) {
    for (uint32_t sample = 0; sample < 4; ++sample) {
      requests.push_back(first);
      requests.back().stream.sample = sample;
    }
  }
  return requests;
}

inline Task<> publish_later(Engine& engine, Duration delay, WeightsPtr weights) {
  co_await sleep_for(delay);
  EXPECT_TRUE((co_await engine.publish(std::move(weights))).ok());
}

}  // namespace stoker
