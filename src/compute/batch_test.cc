#include "compute/batch.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"

namespace stoker {
namespace {

Batch valid() {
  Batch batch;
  batch.segments = {{{1, 2, 3}, -1}, {{4, 5}, 0}};
  batch.candidates = 2;
  batch.segment = {0, 1};
  batch.offset = {2, 1};
  batch.target = {0, 1, 2, 9};
  batch.temperature = {1.0f, 0.5f};
  return batch;
}

TEST(Batch, CountsTokensAndPredictions) {
  EXPECT_EQ(valid().token_count(), 5);
  EXPECT_EQ(valid().prediction_count(), 2);
  EXPECT_NO_THROW(validate(valid(), 10));
}

TEST(Batch, EveryBrokenRuleIsNamed) {
  struct Case {
    const char* sentence;
    std::function<void(Batch&)> damage;
  };
  const Case cases[] = {
      {"no tokens", [](Batch& b) { b.segments[1].tokens.clear(); }},
      {"parent comes before", [](Batch& b) { b.segments[0].parent = 1; }},
      {"parent comes before", [](Batch& b) { b.segments[1].parent = 1; }},
      {"parent comes before", [](Batch& b) { b.segments[1].parent = -2; }},
      {"segment 1 has token id 10", [](Batch& b) { b.segments[1].tokens[0] = 10; }},
      {"segment 0 has token id -1", [](Batch& b) { b.segments[0].tokens[0] = -1; }},
      {"3 targets", [](Batch& b) { b.target.pop_back(); }},
      {"1 offsets", [](Batch& b) { b.offset.pop_back(); }},
      {"1 temperatures", [](Batch& b) { b.temperature.pop_back(); }},
      {"0 candidates", [](Batch& b) { b.candidates = 0; }},
      {"of segment 2", [](Batch& b) { b.segment[1] = 2; }},
      {"offset 2 in segment 1", [](Batch& b) { b.offset[1] = 2; }},
      {"offset -1", [](Batch& b) { b.offset[0] = -1; }},
      {"temperature 0", [](Batch& b) { b.temperature[1] = 0; }},
      {"target 3 has token id 10", [](Batch& b) { b.target[3] = 10; }},
  };
  for (const Case& c : cases) {
    Batch batch = valid();
    c.damage(batch);
    try {
      validate(batch, 10);
      ADD_FAILURE() << c.sentence;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInternal);
      EXPECT_NE(std::string(error.what()).find(c.sentence), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace stoker
