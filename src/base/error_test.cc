#include "base/error.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(Error, KeepsKindAndSentence) {
  EXPECT_EQ(input_error("a").kind(), ErrorKind::kInput);
  EXPECT_EQ(resource_error("b").kind(), ErrorKind::kResource);
  EXPECT_EQ(internal_error("c").kind(), ErrorKind::kInternal);
  EXPECT_STREQ(input_error("run.toml, line 3: say why.").what(), "run.toml, line 3: say why.");
}

TEST(Error, IsCaughtAsRuntimeError) { EXPECT_THROW(throw input_error("x"), std::runtime_error); }

}  // namespace
}  // namespace stoker
