// Completion::text and stop strings, with a tokenizer.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "engine/engine_test_support.h"
#include "engine/native_engine.h"
#include "text/tokenizer_builder.h"

namespace stoker {
namespace {

class EngineText : public testing::Test {
 protected:
  Outcome generate(const GenerateRequest& request) {
    return run(executor_, generate_all(engine_, {request})).front();
  }

  static WeightsPtr weights(int32_t vocabulary) {
    ModelConfig config = test_model_config();
    config.vocab_size = vocabulary;
    auto weights = std::make_shared<Weights>(initialize_weights(config, 4));
    for (float& value : weights->tensor("lm_head.weight")) value *= 20;
    return weights;
  }

  TokenizerPtr tokenizer_ = Tokenizer::from_json(build_tokenizer_json(builder_default_words()), "test");
  SimulatedExecutor executor_{1};
  ComputePool pool_{1};
  NativeEngine engine_{
      executor_, pool_, weights(tokenizer_->vocabulary_size() + 5),
      NativeEngineOptions{.vocabulary_size = tokenizer_->vocabulary_size(), .tokenizer = tokenizer_}};
  GenerateRequest request_{.tokens = {40, 41, 42}, .stop = {.max_tokens = 40}};
};

TEST_F(EngineText, TextIsThatOfTheSampledTokens) {
  const Outcome outcome = generate(request_);
  EXPECT_EQ(outcome.completion->text, tokenizer_->decode(outcome.ids()));
  EXPECT_FALSE(outcome.completion->text.empty());
}

TEST_F(EngineText, TheStopTokenIsNoText) {
  const std::vector<int32_t> ids = generate(request_).ids();
  const auto stop = std::find_if(ids.begin() + 10, ids.end(), [&](int32_t id) {
    return std::find(ids.begin(), ids.begin() + 10, id) == ids.begin() + 10;
  });
  ASSERT_NE(stop, ids.end());
  request_.stop.tokens = {*stop};
  const Outcome outcome = generate(request_);
  EXPECT_EQ(outcome.completion->stop_reason, StopReason::kStopToken);
  EXPECT_EQ(outcome.tokens.back().id, *stop);
  EXPECT_EQ(outcome.completion->text, tokenizer_->decode(std::vector<int32_t>(ids.begin(), stop)));
}

// The ids that are trained hold everything sampled; the text ends before the stop string.
TEST_F(EngineText, SMP_09_AStopStringOverSeveralTokensEndsTheSpan) {
  const std::vector<int32_t> ids = generate(request_).ids();
  const auto text_of = [&](size_t begin, size_t end) {
    return tokenizer_->decode(std::vector<int32_t>(ids.begin() + static_cast<int64_t>(begin),
                                                   ids.begin() + static_cast<int64_t>(end)));
  };
  const std::string stop = text_of(20, 23);
  request_.stop.strings = {"never said by anybody", stop};
  const Outcome outcome = generate(request_);
  EXPECT_EQ(outcome.completion->stop_reason, StopReason::kStopString);
  const std::string whole = text_of(0, ids.size());
  EXPECT_EQ(outcome.completion->text, whole.substr(0, whole.find(stop)));
  const std::vector<int32_t> stopped = outcome.ids();
  EXPECT_TRUE(std::equal(stopped.begin(), stopped.end(), ids.begin()));
  EXPECT_NE(text_of(0, stopped.size()).find(stop), std::string::npos);
  EXPECT_EQ(text_of(0, stopped.size() - 1).find(stop), std::string::npos) << "no token too many";
}

TEST_F(EngineText, AStopStringMayBeginInAnInterruptedRequest) {
  const std::vector<int32_t> ids = generate(request_).ids();
  const auto text_of = [&](int64_t begin, int64_t end) {
    return tokenizer_->decode(std::vector<int32_t>(ids.begin() + begin, ids.begin() + end));
  };
  request_.stop.strings = {text_of(20, 23)};
  const std::vector<int32_t> stopped = generate(request_).ids();
  const auto cut = static_cast<int64_t>(stopped.size()) - 1;  // inside the stop string
  for (int64_t i = 0; i < cut; ++i) request_.tokens.push_back(stopped[static_cast<size_t>(i)]);
  request_.first_position = static_cast<uint64_t>(cut);
  const Outcome rest = generate(request_);
  EXPECT_EQ(rest.completion->stop_reason, StopReason::kStopString);
  EXPECT_EQ(rest.ids(), std::vector<int32_t>{stopped.back()});
  EXPECT_EQ(rest.completion->text, "");
}

}  // namespace
}  // namespace stoker
