#include "observe/metrics_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "base/testing/test_folder.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

class MetricsFile : public testing::Test {
 protected:
  const TestFolder folder_;
  const fs::path path_ = folder_ / "metrics.jsonl";
};

TEST_F(MetricsFile, OneObjectAStepInTheOrderOfNames) {
  MetricsWriter writer(path_);
  writer.write(1, 0.5, {{"reward", 0.25}, {"completions/mean_length", 31}});
  writer.write(2, 1.5, {});
  EXPECT_EQ(read_file(path_),
            "{\"step\":1,\"seconds\":0.5,\"completions/mean_length\":31.0,\"reward\":0.25}\n"
            "{\"step\":2,\"seconds\":1.5}\n");
}

TEST_F(MetricsFile, MET_05_LinesAreStrictJson) {
  const double infinity = std::numeric_limits<double>::infinity();
  MetricsWriter(path_).write(1, 0, {{"reward", std::nan("")}, {"logprob", -infinity}, {"metric", infinity}});
  for_each_line(path_, [](std::string_view line, size_t, bool complete) {
    EXPECT_TRUE(complete);
    Json row = Json::parse(line);
    for (const char* name : {"reward", "logprob", "metric"}) EXPECT_TRUE(row.at(name).is_null());
    return true;
  });
}

TEST_F(MetricsFile, ResumingDropsStepsThatWillBeTakenAgain) {
  {
    MetricsWriter writer(path_);
    for (int step = 1; step <= 5; ++step) writer.write(step, step, {});
  }
  std::ofstream(path_, std::ios::app) << "{\"step\":6,\"sec";
  {
    MetricsWriter writer(path_, 3);
    writer.write(4, 40, {});
  }
  EXPECT_EQ(read_file(path_),
            "{\"step\":1,\"seconds\":1.0}\n{\"step\":2,\"seconds\":2.0}\n{\"step\":3,\"seconds\":3.0}\n"
            "{\"step\":4,\"seconds\":40.0}\n");
}

TEST_F(MetricsFile, ResumingWithoutAFileStartsOne) {
  MetricsWriter(path_, 3).write(4, 1, {});
  EXPECT_EQ(read_file(path_), "{\"step\":4,\"seconds\":1.0}\n");
}

TEST_F(MetricsFile, ResumingRefusesAForeignFile) {
  std::ofstream(path_) << "{\"step\":1}\n{\"loss\":1}\n";
  try {
    MetricsWriter writer(path_, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("line 2: the line has no integer \"step\""));
  }
}

}  // namespace
}  // namespace stoker
