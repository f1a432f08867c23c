#include "trajectory/episode_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/random.h"
#include "base/testing/test_folder.h"
#include "trajectory/testing/random_trajectory.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

class EpisodeFile : public ::testing::Test {
 protected:
  static EpisodeRecord record(uint64_t ordinal) {
    RandomStream random(StreamKey{.run_seed = ordinal});
    EpisodeRecord result;
    result.id = {ordinal, 0, 0};
    result.task_id = "task " + std::to_string(ordinal);
    result.trajectory = testing::random_trajectory(random);
    result.reward = random.normal();
    return result;
  }

  std::vector<EpisodeRecord> read_all() const {
    std::vector<EpisodeRecord> records;
    for_each_episode(folder_, [&](const EpisodeRecord& record, const EpisodePlace&) {
      records.push_back(record);
      return true;
    });
    return records;
  }

  void append_text(const std::string& text, const std::string& name = "000000.jsonl") const {
    fs::create_directories(folder_);
    std::ofstream(folder_ / name, std::ios::binary | std::ios::app) << text;
  }

  const TestFolder test_folder_;
  const fs::path folder_ = test_folder_ / "episodes";
};

TEST_F(EpisodeFile, RecordsReadBackInOrderAcrossRotatedFiles) {
  std::vector<EpisodeRecord> written;
  {
    EpisodeWriter writer(folder_, 2000);
    for (uint64_t i = 0; i < 50; ++i) {
      written.push_back(record(i));
      writer.append(written.back());
    }
    writer.flush_to_disk();
  }
  EXPECT_GT(list_episode_files(folder_).size(), 3u);
  EXPECT_EQ(read_all(), written);
}

TEST_F(EpisodeFile, WritingGoesOnBehindWhatIsThere) {
  std::vector<EpisodeRecord> written;
  for (uint64_t i = 0; i < 12; ++i) {
    EpisodeWriter writer(folder_, 1500);
    written.push_back(record(i));
    writer.append(written.back());
  }
  EXPECT_EQ(read_all(), written);
  EXPECT_GT(list_episode_files(folder_).size(), 1u);
}

TEST_F(EpisodeFile, CKP_07_ACutLastLineIsDropped) {
  EpisodeWriter(folder_).append(record(1));
  std::string whole = record(2).to_json().dump();
  append_text(whole.substr(0, whole.size() / 2));
  EXPECT_THAT(read_all(), ::testing::ElementsAre(record(1)));
  EpisodeWriter(folder_).append(record(3));  // takes the place of the cut line
  EXPECT_THAT(read_all(), ::testing::ElementsAre(record(1), record(3)));
}

TEST_F(EpisodeFile, CKP_07_LinesAreSplitOnLineFeedsOnly) {
  EpisodeRecord strange = record(1);
  strange.task_id = "a\u2028b\u0085c\u000Bd\u000Ce\r\nf";
  std::string line = strange.to_json().dump();
  EXPECT_NE(line.find("\u2028"), std::string::npos);  // unescaped, as other writers leave it too
  EpisodeWriter(folder_).append(strange);
  EXPECT_THAT(read_all(), ::testing::ElementsAre(strange));
}

TEST_F(EpisodeFile, OtherBrokenLinesAreNamed) {
  EpisodeWriter(folder_).append(record(1));
  append_text("{\"id\":\"7.0\"}\n");
  try {
    read_all();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(std::string(error.what()),
              (folder_ / "000000.jsonl").string() + ", line 2: episode.task_id: the member is missing.");
  }
}

TEST_F(EpisodeFile, FindsAllRecordsOfAnId) {
  EpisodeWriter writer(folder_, 1000);
  EpisodeRecord evaluated = record(4);
  evaluated.purpose = "evaluate";
  EpisodeRecord retried = record(4);
  retried.id.attempt = 1;
  for (uint64_t i = 0; i < 10; ++i) writer.append(record(i));
  writer.append(retried);
  writer.append(evaluated);
  EXPECT_THAT(find_episodes(folder_, {4, 0, 0}), ::testing::ElementsAre(record(4), evaluated));
  EXPECT_THAT(find_episodes(folder_, {4, 0, 1}), ::testing::ElementsAre(retried));
  EXPECT_THAT(find_episodes(folder_, {40, 0, 0}), ::testing::IsEmpty());
}

TEST_F(EpisodeFile, VisitingStopsAndNamesPlaces) {
  EpisodeWriter writer(folder_, 1);
  for (uint64_t i = 0; i < 5; ++i) writer.append(record(i));
  std::vector<std::string> places;
  for_each_episode(folder_, [&](const EpisodeRecord&, const EpisodePlace& place) {
    places.push_back(place.file.filename().string() + ":" + std::to_string(place.line));
    return places.size() < 3;
  });
  EXPECT_THAT(places, ::testing::ElementsAre("000000.jsonl:1", "000001.jsonl:1", "000002.jsonl:1"));
}

TEST_F(EpisodeFile, OtherFilesArePassedOverAndAMissingFolderIsAnError) {
  EXPECT_THROW(read_all(), Error);
  EpisodeWriter(folder_).append(record(1));
  append_text("hello", "notes.txt");
  append_text("hello", "1.jsonl");
  EXPECT_THAT(read_all(), ::testing::ElementsAre(record(1)));
}

}  // namespace
}  // namespace stoker
