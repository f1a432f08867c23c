#include "model/sizes.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace stoker {
namespace {

TEST(ModelSizes, AreValidAndAboutAsLargeAsTheirNames) {
  const double expected[] = {0.6e6, 1e6, 5e6, 25e6};
  std::vector<std::string> names = model_size_names();
  ASSERT_EQ(names.size(), 4u);
  for (size_t i = 0; i < names.size(); ++i) {
    ModelConfig config = model_config_of_size(names[i], 290);
    validate(config);
    EXPECT_NEAR(static_cast<double>(config.parameter_count()) / expected[i], 1.0, 0.15) << names[i];
  }
  EXPECT_THROW(model_config_of_size("3M", 290), Error);
}

}  // namespace
}  // namespace stoker
