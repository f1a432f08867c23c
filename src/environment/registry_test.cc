#include "environment/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace stoker {
namespace {

using ::testing::HasSubstr;

TEST(Registry, KnowsItsKindsInOrder) {
  std::vector<std::string> names = environment_kind_names();
  EXPECT_THAT(names, ::testing::ElementsAre("arithmetic", "question_answering"));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const std::string& name : names) {
    auto kind = make_environment_kind(name, Json::object());
    EXPECT_NE(kind->make(), nullptr);
    EXPECT_FALSE(kind->rewards().empty());
    EXPECT_NE(make_environment_kind(name, nullptr), nullptr);  // a run file without a table
  }
}

TEST(Registry, UnknownKindsAreRefusedWithTheKnownOnes) {
  try {
    make_environment_kind("arithmetics", Json::object());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_STREQ(error.what(),
                 "There is no environment \"arithmetics\" (did you mean \"arithmetic\"?); the known ones are "
                 "arithmetic, question_answering.");
  }
  EXPECT_THROW(environment_kind_documentation("x"), Error);
}

TEST(Registry, DocumentsEveryOption) {
  EXPECT_THAT(environment_kind_documentation("arithmetic"), HasSubstr("`evaluation_size`"));
  EXPECT_THAT(environment_kind_documentation("question_answering"), HasSubstr("`train_file`"));
}

// A kind without demonstrations says so.
TEST(Registry, DemonstrationsAreOptional) {
  EXPECT_EQ(make_environment_kind("question_answering", Json::object())->demonstration(0, 1).has_value(),
            false);
  EXPECT_EQ(make_environment_kind("arithmetic", Json::object())->demonstration(0, 1).has_value(), true);
}

}  // namespace
}  // namespace stoker
