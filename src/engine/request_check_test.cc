#include "engine/request_check.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/error.h"

namespace stoker {
namespace {

std::string refusal(const SamplingParameters& parameters) {
  try {
    validate(parameters);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(RequestCheck, NamesTheParameterOutsideItsRange) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({.temperature = 0, .top_k = 1, .top_p = 0.5f, .min_p = 1}), "");
  EXPECT_NE(refusal({.temperature = -1}).find("temperature is -1"), std::string::npos);
  EXPECT_NE(refusal({.temperature = 1e-9f}).find("at least 0.0001"), std::string::npos);
  EXPECT_NE(refusal({.temperature = kNan}).find("temperature"), std::string::npos);
  EXPECT_NE(refusal({.temperature = std::numeric_limits<float>::infinity()}).find("temperature"),
            std::string::npos);
  EXPECT_NE(refusal({.top_k = -1}).find("top_k is -1"), std::string::npos);
  EXPECT_NE(refusal({.top_p = 0}).find("top_p is 0"), std::string::npos);
  EXPECT_NE(refusal({.top_p = 1.5f}).find("top_p is 1.5"), std::string::npos);
  EXPECT_NE(refusal({.top_p = kNan}).find("top_p"), std::string::npos);
  EXPECT_NE(refusal({.min_p = 2}).find("min_p is 2"), std::string::npos);
  EXPECT_NE(refusal({.repetition_penalty = 0}).find("repetition_penalty is 0"), std::string::npos);
  EXPECT_NE(refusal({.presence_penalty = kNan}).find("presence_penalty"), std::string::npos);
  EXPECT_NE(refusal({.frequency_penalty = kNan}).find("frequency_penalty"), std::string::npos);
  EXPECT_NE(refusal({.logit_bias = {{7, kNan}}}).find("token 7"), std::string::npos);
  EXPECT_NE(refusal({.top_log_probabilities = -1}).find("top_log_probabilities"), std::string::npos);
}

TEST(RequestCheck, SMP_13_NoTokensAllowedIsALimit) {
  GenerateRequest request{.tokens = {1}, .stop = {.max_tokens = 1}};
  EXPECT_FALSE(check_request(request).has_value());
  request.stop.max_tokens = 0;
  ASSERT_TRUE(check_request(request).has_value());
  EXPECT_EQ(check_request(request)->name(), "limit.max_tokens");
}

TEST(RequestCheck, AnEmptyContextIsABrokenPromise) {
  EXPECT_THROW((void)check_request({.stop = {.max_tokens = 1}}), Error);
}

}  // namespace
}  // namespace stoker
