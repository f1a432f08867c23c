#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace stoker {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Failure{FailureClass::kTool, "odd", "the number is odd"};
  return value / 2;
}

TEST(Result, HoldsValueOrFailure) {
  Result<int> good = half(8);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 4);
  EXPECT_THROW(good.failure(), Error);

  Result<int> bad = half(7);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.failure().name(), "tool.odd");
  try {
    bad.value();
    FAIL() << "value of a failure must throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_NE(std::string(error.what()).find("the number is odd"), std::string::npos);
  }
}

TEST(Result, MovesMoveOnlyValues) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 5);
}

TEST(FailureClass, NamesReadBack) {
  for (FailureClass failure_class :
       {FailureClass::kPolicy, FailureClass::kLimit, FailureClass::kTool, FailureClass::kEnvironment,
        FailureClass::kReward, FailureClass::kInfrastructure}) {
    EXPECT_EQ(failure_class_from_string(to_string(failure_class)), failure_class);
  }
  EXPECT_EQ(failure_class_from_string("weather"), std::nullopt);
  EXPECT_EQ(failure_class_from_string(""), std::nullopt);
}

}  // namespace
}  // namespace stoker
