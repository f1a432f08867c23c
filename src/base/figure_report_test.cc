#include "base/figure_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/testing/test_folder.h"

namespace stoker {
namespace {

TEST(FigureReport, PrintsALineAndWritesStrictJson) {
  FigureReport report;
  testing::internal::CaptureStdout();
  report.add("speed", 12.5, "tokens/s");
  report.add({.name = "decode", .value = 30, .unit = "tokens/s", .baseline = 10.0, .seed = 3});
  report.add({.name = "decode", .value = std::nan(""), .unit = "tokens/s", .seed = 4});
  std::string text = testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, testing::HasSubstr("12.5 tokens/s\n"));
  EXPECT_THAT(text, testing::HasSubstr("30 tokens/s (3 of 10)\n"));

  const TestFolder folder;
  const std::filesystem::path path = folder / "figures.json";
  report.write(path);
  Json list = Json::parse(read_file(path));
  ASSERT_EQ(list.as_array().size(), 3u);
  EXPECT_EQ(list.as_array()[0].dump(), R"({"name":"speed","value":12.5,"unit":"tokens/s"})");
  EXPECT_EQ(list.as_array()[1].dump(),
            R"({"name":"decode","value":30.0,"unit":"tokens/s","baseline":10.0,"ratio":3.0,"seed":3})");
  EXPECT_TRUE(list.as_array()[2].at("value").is_null());
}

TEST(FigureReport, RefusesANameTwiceAndAFileThatCannotBe) {
  FigureReport report;
  testing::internal::CaptureStdout();
  report.add("a", 1, "s");
  testing::internal::GetCapturedStdout();
  EXPECT_THROW(report.add("a", 2, "s"), Error);
  EXPECT_EQ(report.figures().size(), 1u);
  EXPECT_THROW(report.write("/proc/none/x.json"), Error);
}

}  // namespace
}  // namespace stoker
