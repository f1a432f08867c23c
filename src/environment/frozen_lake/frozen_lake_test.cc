#include "environment/frozen_lake/frozen_lake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/testing/test_folder.h"
#include "environment/frozen_lake/walk.h"
#include "environment/testing/test_pool.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kGymnasium4 = {"SFFF", "FHFH", "FFFH", "HFFG"};

std::unique_ptr<EnvironmentKind> lake_kind(Json options = Json::object()) {
  return make_environment_kind("frozen_lake", options);
}

std::string lake_error(const Json& options) {
  try {
    lake_kind(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

std::string row_text(const TaskRow& row) {
  std::string text;
  for (const Json& line : row.fields.at("rows").as_array())
    text += (text.empty() ? "" : "\n") + line.as_string();
  return text;
}

std::set<std::string> held_out_lakes(const EnvironmentKind& kind) {
  auto tasks = kind.evaluation_tasks();
  std::set<std::string> lakes;
  for (uint64_t i = 0; i < *tasks->epoch_size(); ++i) lakes.insert(row_text(tasks->task(i)));
  return lakes;
}

// The lake in a demonstration's first message, as it is before the first move.
std::string demonstrated_lake(const Demonstration& demonstration) {
  std::string text = demonstration.messages.front().content;
  text[text.find('P')] = 'S';
  return text;
}

TEST(Lake, MovesAsGymnasiumDoes) {
  Lake lake(kGymnasium4);
  EXPECT_EQ(lake.beside(0, Direction::kLeft), 0);
  EXPECT_EQ(lake.beside(0, Direction::kUp), 0);
  EXPECT_EQ(lake.beside(0, Direction::kDown), 4);
  EXPECT_EQ(lake.beside(3, Direction::kRight), 3);
  EXPECT_EQ(lake.beside(13, Direction::kDown), 13);
  EXPECT_EQ(lake.beside(14, Direction::kRight), 15);
  EXPECT_TRUE(lake.is_end(5) && lake.is_end(15) && !lake.is_end(0));
  EXPECT_EQ(lake.drawn(6), "SFFF\nFHPH\nFFFH\nHFFG");
  // The three directions that are not opposite, in Gymnasium's order.
  for (Direction wanted : kDirections) {
    for (int i = 0; i < 3; ++i) {
      int gone = static_cast<int>(slipped(wanted, (i + 0.5) / 3));
      EXPECT_EQ(gone, (static_cast<int>(wanted) + 3 + i) % 4);
    }
  }
}

TEST(Lake, PathsAreThoseOfTheSharedMaps) {
  std::filesystem::path file =
      std::filesystem::path(STOKER_SOURCE_DIR) / ".." / "shared" / "data" / "frozenlake" / "maps.json";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "the maps are not in " << file;
  Json maps = Json::parse(read_file(file));
  for (const Json& map : maps.at("maps").as_array()) {
    std::vector<std::string> rows;
    for (const Json& row : map.at("rows").as_array()) rows.push_back(row.as_string());
    int moves = moves_to_goal(Lake(rows))[0];
    EXPECT_EQ(moves >= 0, map.at("solvable").as_bool()) << map.dump();
    if (moves >= 0) EXPECT_EQ(moves, map.at("shortest_path").as_int()) << map.dump();
  }
}

TEST(Lake, TheBestMovesOnSlipperyIceAreTheKnownOnes) {
  // Value iteration on Gymnasium's FrozenLake-v1, as published many times: fields that end have no move.
  const int known[16] = {0, 3, 3, 3, 0, -1, 0, -1, 3, 1, 0, -1, -1, 2, 1, -1};
  std::vector<std::vector<Direction>> best = best_moves(Lake(kGymnasium4), true);
  for (size_t field = 0; field < 16; ++field) {
    bool holds = std::find(best[field].begin(), best[field].end(), static_cast<Direction>(known[field])) !=
                 best[field].end();
    EXPECT_EQ(holds, known[field] >= 0) << field;
  }
}

TEST(Lake, DrawnLakesAreSolvableAndWrongOnesRefused) {
  RandomStream random(StreamKey{.run_seed = 3});
  for (int size = 3; size <= 8; ++size) {
    for (int i = 0; i < 50; ++i) {
      Lake lake = draw_lake(size, 0.7, random);
      EXPECT_EQ(lake.size(), size);
      EXPECT_GE(moves_to_goal(lake)[0], 2 * (size - 1));
    }
  }
  for (std::vector<std::string> rows :
       {std::vector<std::string>{"SF", "F"}, {"FF", "FG"}, {"SG", "FG"}, {"S"}}) {
    EXPECT_THROW(Lake lake(rows), Error);
  }
}

TEST(LakeWalk, SlipsAreThatOfTheSeedAndTheMovesOrdinal) {
  int field_changes[16] = {};
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    LakeWalk walk(Lake(kGymnasium4), true, 10, seed);
    walk.move(Direction::kRight);
    LakeWalk again(Lake(kGymnasium4), true, 10, seed);
    again.move(Direction::kRight);
    ASSERT_EQ(walk.field(), again.field());
    ++field_changes[walk.field()];
  }
  // Wanted right from the corner: down, right, or up against the border.
  for (int field : {0, 1, 4}) EXPECT_NEAR(field_changes[field], 1000, 120) << field;
}

TEST(LakeWalk, TheLastWordThatNamesAMoveCounts) {
  EXPECT_EQ(last_direction("Right."), Direction::kRight);
  EXPECT_EQ(last_direction("not left but DOWN"), Direction::kDown);
  EXPECT_EQ(last_direction("upwards, leftover"), std::nullopt);
  EXPECT_EQ(last_direction(""), std::nullopt);
}

// Plays `turns` and returns what was told last and whether the episode was done.
std::pair<std::string, bool> play(const Json& options, const std::vector<std::string>& turns) {
  std::unique_ptr<Environment> environment = lake_kind(options)->make(test_pool());
  SimulatedExecutor executor(1);
  Json rows = Json::array();
  for (const std::string& row : kGymnasium4) rows.as_array().push_back(row);
  TaskRow task{"t", Json::object({{"rows", rows}})};
  Observation told = *run(executor, environment->reset(task, 7));
  for (const std::string& turn : turns) {
    if (told.done) break;
    Action action;
    action.content = turn;
    told = *run(executor, environment->step(action));
  }
  run(executor, environment->close());
  return {told.messages.empty() ? "" : told.messages.back().content, told.done};
}

TEST(FrozenLake, AWalkInTextEndsAtGoalHoleOrItsLastMove) {
  Json options = Json::object({{"instructions", false}, {"max_moves", 8}});
  EXPECT_EQ(play(options, {}).first, "PFFF\nFHFH\nFFFH\nHFFG");
  EXPECT_EQ(play(options, {"down", "down", "right", "right", "down", "right"}),
            std::pair(std::string(kGoalReached), true));
  EXPECT_EQ(play(options, {"right", "down"}), std::pair(std::string("You fell into a hole."), true));
  EXPECT_EQ(play(options, std::vector<std::string>(8, "left")),
            std::pair(std::string("Your moves are used up."), true));
  EXPECT_EQ(play(options, {"hm"}),
            std::pair(std::string("Say left, down, right or up.\nPFFF\nFHFH\nFFFH\nHFFG"), false));
  EXPECT_THAT(play(Json::object(), {}).first, HasSubstr("left, down, right or up"));
}

TEST(FrozenLake, AWalkByToolAnswersEachCall) {
  std::unique_ptr<Environment> environment =
      lake_kind(Json::object({{"moves", "tool"}, {"instructions", false}}))->make(test_pool());
  SimulatedExecutor executor(1);
  TaskRow task{"t", Json::parse(R"({"rows": ["SFF", "FFF", "FFG"]})")};
  EXPECT_EQ(run(executor, environment->reset(task, 1))->messages.at(0).content, "PFF\nFFF\nFFG");
  Tool& tool = *environment->tools().at(0);
  auto move = [&](const char* direction) {
    return *run(executor, tool.call(Json::object({{"direction", direction}})));
  };
  EXPECT_EQ(move("down").content, "SFF\nPFF\nFFG");
  EXPECT_EQ(run(executor, environment->step({}))->messages.at(0).content,
            "Call the tool move.\nSFF\nPFF\nFFG");
  for (const char* direction : {"down", "right"}) move(direction);
  EXPECT_EQ(move("right").content, kGoalReached);
  EXPECT_TRUE(move("right").is_error);
  EXPECT_TRUE(run(executor, environment->step({}))->done);
}

TEST(FrozenLake, HeldOutLakesAreNeverTrainedOnOrDemonstrated) {
  for (int size : {4, 5}) {
    auto kind = lake_kind(Json::object({{"min_size", 4}, {"max_size", size}, {"instructions", false}}));
    std::set<std::string> held_out = held_out_lakes(*kind);
    EXPECT_EQ(held_out.size(), 512u);
    auto tasks = kind->training_tasks(5);
    for (uint64_t i = 0; i < 2000; ++i) {
      EXPECT_FALSE(held_out.contains(row_text(tasks->task(i))));
      if (i % 20 == 0) EXPECT_FALSE(held_out.contains(demonstrated_lake(*kind->demonstration(i, 5))));
    }
    EXPECT_EQ(tasks->task(7).fields, kind->training_tasks(5)->task(7).fields);
    EXPECT_NE(tasks->task(7).fields, kind->training_tasks(6)->task(7).fields);
  }
}

TEST(FrozenLake, HeldOutLakesMayComeFromAFile) {
  TestFolder folder;
  auto path = folder.write("maps.json", R"({"maps": [{"rows": ["SFFF", "FHFH", "FFFH", "HFFG"]},
                                             {"rows": ["SHFF", "HHFH", "FFFH", "HFFG"]}, {"rows": ["SF", "FG"]}]})");
  auto kind = lake_kind(Json::object({{"evaluation_file", path}}));
  EXPECT_EQ(held_out_lakes(*kind), std::set<std::string>{Lake(kGymnasium4).text()});
  auto broken = folder.write("broken.json", R"({"maps": [{"rows": ["SF", "FX"]}]})");
  EXPECT_THAT(lake_error(Json::object({{"evaluation_file", broken}})), HasSubstr("map 0 of"));
  EXPECT_THAT(lake_error(Json::object({{"min_size", 5}, {"max_size", 4}})), HasSubstr("min_size"));
  EXPECT_THAT(lake_error(Json::object({{"min_size", 3}, {"max_size", 3}})), HasSubstr("evaluation_size"));
}

TEST(FrozenLake, DemonstrationsOfBestMovesReachTheGoal) {
  for (bool slippery : {false, true}) {
    auto kind = lake_kind(Json::object({{"slippery", slippery},
                                        {"moves", slippery ? "tool" : "text"},
                                        {"max_size", 6},
                                        {"max_moves", slippery ? 200 : 0}}));
    int reached = 0;
    for (uint64_t i = 0; i < 60; ++i) {
      Demonstration demonstration = *kind->demonstration(i, 1);
      EXPECT_EQ(demonstration.messages.front().role, Role::kUser);
      EXPECT_EQ(demonstration.messages.back().role, Role::kAssistant);
      if (slippery) {
        reached += demonstration.messages.at(demonstration.messages.size() - 2).content == kGoalReached;
      } else {
        EXPECT_LE(demonstration.messages.size(), 2u * 16);
      }
    }
    if (slippery) EXPECT_GT(reached, 20);
  }
}

}  // namespace
}  // namespace stoker
