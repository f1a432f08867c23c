#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>

#include "async/cancellation.h"
#include "async/collect.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "async/sleep.h"
#include "base/error.h"
#include "base/testing/test_folder.h"
#include "environment/command/command_kind.h"
#include "environment/command/outside_kind.h"
#include "environment/testing/test_pool.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CommandOptions child_options(int processes) {
  CommandOptions options;
  options.command = {STOKER_OUTSIDE_CHILD};
  options.processes = processes;
  options.restarts = 1000;
  return options;
}

std::unique_ptr<EnvironmentKind> child_kind(CommandOptions process) {
  return make_command({.process = std::move(process)});
}

TaskRow row(const std::string& what, int value) {
  return {"row", Json::object({{"do", what}, {"value", value}})};
}

// What became of an episode: its own score, or the failure's name.
struct Played {
  double score = 0;
  std::string failure = "done";
};

// An episode as the runner plays it, but for the policy and the deadlines: how long a loaded machine takes
// says nothing.
Task<Played> play(const EnvironmentKind* kind, TaskRow task, EpisodeId id = {}) {
  Played played;
  const std::unique_ptr<Environment> environment = kind->make(test_pool());
  co_await environment->admit(task, id);
  Result<Observation> seen = co_await environment->reset(task, 1);
  const Action action{.text = "text", .content = "text"};
  if (seen) seen = co_await environment->step(action);
  std::optional<Failure> failure;
  if (!seen) failure = seen.failure();
  if (!failure || failure->failure_class == FailureClass::kLimit) {
    const Result<RewardResult> score = co_await environment->score(failure);
    if (score) played.score = score->reward;
    if (!score) failure = score.failure();
  }
  co_await environment->close();
  if (failure) played.failure = failure->name();
  co_return played;
}

// Attempt number `attempt` of the episodes `open`, each of a task of its own.
Task<std::vector<Played>> play_all(const EnvironmentKind* kind, std::vector<TaskRow> tasks,
                                   std::vector<int> open, uint32_t attempt, size_t at_once) {
  std::vector<Task<Played>> plays;
  for (size_t i = 0; i < tasks.size(); ++i) {
    plays.push_back(play(kind, std::move(tasks[i]),
                         {.task_ordinal = static_cast<uint64_t>(open[i]), .attempt = attempt}));
  }
  co_return co_await collect_all_windowed(std::move(plays), at_once);
}

int open_descriptors() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count += !entry.path().empty();
  return count;
}

TEST(CommandEnvironment, AnEpisodeFromResetToClose) {
  RealExecutor executor;
  auto kind = child_kind(child_options(2));
  run(executor, kind->open());
  std::vector<std::string> names;
  for (const auto& reward : kind->rewards()) names.push_back(reward->name());
  EXPECT_THAT(names, ElementsAre("Count", "length", "unsure"));
  EXPECT_EQ(kind->training_tasks(1)->task(0).id, "train/256");
  EXPECT_EQ(kind->evaluation_tasks()->task(257).fields.at("index").as_int(), 1);

  auto environment = kind->make(test_pool());
  const Result<Observation> first = run(executor, environment->reset(row("", 7), 5));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->messages.at(0).content, "Task row");
  ASSERT_EQ(environment->tools().size(), 1u);
  EXPECT_EQ(environment->tools()[0]->schema().name, "value");
  EXPECT_EQ(run(executor, environment->tools()[0]->call(Json::object()))->content, "7");
  EXPECT_TRUE(run(executor, environment->step({.turn = 1, .text = "x", .content = "x"}))->done);
  const Result<RewardResult> own = run(executor, environment->score(std::nullopt));
  EXPECT_EQ(own->reward, 7.0);
  EXPECT_TRUE(own->success);
  run(executor, environment->close());
  EXPECT_FALSE(run(executor, environment->step({})).ok());

  const TaskRow task = row("", 7);
  const std::vector<Message> messages = {{.role = Role::kUser, .content = "a"},
                                         {.role = Role::kAssistant, .content = "b"}};
  EpisodeRecord record;
  const EpisodeView view{task, messages, record, test_pool(), &own, 1};
  EXPECT_EQ(run(executor, kind->rewards()[0]->score(view))->reward, 7.0);
  EXPECT_EQ(run(executor, kind->rewards()[1]->score(view))->reward, 2.0);
  EXPECT_FALSE(run(executor, kind->rewards()[1]->score(view))->success);
  EXPECT_FALSE(run(executor, kind->rewards()[2]->score(view))->scored);
}

TEST(CommandEnvironment, EveryWayToGoWrongIsAFailureOfItsClass) {
  RealExecutor executor;
  CommandOptions options = child_options(1);
  options.max_line_bytes = 65536;
  auto kind = child_kind(options);
  run(executor, kind->open());
  const std::map<std::string, std::string> expected = {
      {"", "done"},
      {"crash", "infrastructure.process_ended"},
      {"garbage", "infrastructure.process_ended"},
      {"long", "infrastructure.process_ended"},
      {"flood", "done"},
      {"fail", "environment.planted"},
      {"limit", "limit.environment"},
  };
  ::testing::internal::CaptureStderr();
  for (const auto& [what, name] : expected) {
    EXPECT_EQ(run(executor, play(kind.get(), row(what, 3))).failure, name) << what;
  }
  // Whoever is late with a ping is taken for hung, and on a loaded machine anyone is: only the
  // process that does hang has so short a time.
  CommandOptions impatient = options;
  impatient.heartbeat_seconds = 0.02;
  impatient.heartbeat_timeout_seconds = 0.2;
  auto impatient_kind = child_kind(impatient);
  run(executor, impatient_kind->open());
  EXPECT_EQ(run(executor, play(impatient_kind.get(), row("hang", 3))).failure,
            "infrastructure.process_ended");
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("exited with status 9; its last words: planted crash"));
  EXPECT_THAT(log, HasSubstr("had not answered a ping after 0.2 s"));
  EXPECT_THAT(log, HasSubstr("more than 1000 lines in a row that are no messages"));
  EXPECT_THAT(log, HasSubstr("a line of more than 65536 bytes"));
  EXPECT_THAT(log, HasSubstr("stray output"));
  EXPECT_EQ(run(executor, play(kind.get(), row("limit", 3))).score, 3.0);
}

// A tenth each of crashing, hanging and garbage-writing episodes: every episode comes to an end of its own
// class, what was lost to a neighbour is played again, and the healthy ones give what they would alone within
// three attempts, though three episodes go wrong at each.
TEST(CommandEnvironment, ManyEpisodesOverProcessesThatGoWrong) {
  constexpr int kEpisodes = 160;
  const char* what[] = {"", "", "crash", "", "", "hang", "", "", "garbage", ""};
  RealExecutor executor;
  const int before = open_descriptors();
  {
    CommandOptions options = child_options(8);
    options.heartbeat_seconds = 0.02;
    options.heartbeat_timeout_seconds = 1;
    options.episodes_per_process = 4;
    auto kind = child_kind(options);
    run(executor, kind->open());
    std::vector<int> open;
    for (int i = 0; i < kEpisodes; ++i) open.push_back(i);
    ::testing::internal::CaptureStderr();
    const auto for_good = [](int i) { return i == 22 || i == 75 || i == 138; };
    for (uint32_t attempt = 0; attempt < 3; ++attempt) {
      std::vector<TaskRow> tasks;
      for (int i : open) tasks.push_back(row(attempt == 0 || for_good(i) ? what[i % 10] : "", i));
      const std::vector<Played> played =
          run(executor, play_all(kind.get(), std::move(tasks), open, attempt, 32));
      std::vector<int> again;
      for (size_t k = 0; k < open.size(); ++k) {
        if (played[k].failure == "done") {
          EXPECT_EQ(played[k].score, open[k]);
        } else {
          EXPECT_EQ(played[k].failure, "infrastructure.process_ended");
          again.push_back(open[k]);
        }
      }
      if (attempt == 0) EXPECT_GE(again.size(), kEpisodes * 3u / 10);
      open = again;
    }
    ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(open, ElementsAre(22, 75, 138));
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(CommandEnvironment, AKilledProcessIsReplacedWithinASecond) {
  RealExecutor executor;
  auto pool = std::make_shared<WorkerPool>(child_options(1), "environment.command");
  run(executor, pool->open());
  const int first = pool->process_ids().at(0);
  ::kill(first, SIGKILL);
  const TimePoint begin = executor.now();
  Result<Json> answer = Json();
  do {
    answer = run(executor, pool->ask("ping", Json()));
  } while (!answer || pool->replaced() == 0);
  EXPECT_NE(pool->process_ids().at(0), first);
  RecordProperty("replacement_ms", static_cast<int>(to_seconds(executor.now() - begin) * 1000));
}

TEST(CommandEnvironment, SnapshotsAreTriedOut) {
  const TestFolder folder;
  RealExecutor executor;
  const auto problems = [&](const std::string& what) {
    const std::string rows = folder.write("rows.jsonl", "{\"do\": \"" + what + "\", \"value\": 5}\n");
    CommandEnvironmentOptions options{.process = child_options(1)};
    options.process.episodes_per_process = 1;
    options.files.train_file = rows;
    auto kind = make_command(options);
    run(executor, kind->open());
    return run(executor, kind->check_at_rest());
  };
  EXPECT_THAT(problems("count"), IsEmpty());
  EXPECT_THAT(problems(""), IsEmpty());  // over after one turn
  EXPECT_THAT(problems("forget"), ElementsAre(HasSubstr("went on otherwise")));
}

TEST(OutsideKind, AddsToolsAndRewardsToANativeEnvironment) {
  RealExecutor executor;
  ToolsOptions tools;
  tools.command.process = child_options(1);
  RewardOptions reward;
  reward.command.process = child_options(1);
  reward.command.rewards = {"length"};
  reward.command.weights = {0.5};
  auto kind = with_outside(make_environment_kind("arithmetic", Json()), tools, reward);
  run(executor, kind->open());
  auto environment = kind->make(test_pool());
  ASSERT_TRUE(run(executor, environment->reset(kind->training_tasks(1)->task(0), 0)).ok());
  ASSERT_EQ(environment->tools().size(), 2u);
  EXPECT_EQ(environment->tools()[1]->schema().name, "double");
  EXPECT_EQ(run(executor, environment->tools()[1]->call(Json::object({{"x", 21}})))->content, "42");
  run(executor, environment->close());
  std::vector<std::string> names;
  for (const auto& one : kind->rewards()) names.push_back(one->name());
  EXPECT_THAT(names, ElementsAre("answer", "length"));
  EXPECT_THAT(kind->reward_weights(), ElementsAre(1.0, 0.5));
}

TEST(OutsideKind, WhatDoesNotFitIsNamedAtTheStart) {
  RealExecutor executor;
  auto message = [&](const ToolsOptions& tools, const RewardOptions& reward) -> std::string {
    try {
      auto kind = with_outside(make_environment_kind("arithmetic", Json()), tools, reward);
      run(executor, kind->open());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  RewardOptions reward;
  reward.command.process = child_options(1);
  reward.command.rewards = {"lenght"};
  EXPECT_EQ(
      message({}, reward),
      "reward.command.rewards: the command lists no \"lenght\" (did you mean \"length\"?); it lists length, "
      "unsure.");
  reward.command.rewards = {};
  reward.command.weights = {1, 2, 3};
  EXPECT_EQ(message({}, reward), "reward.command.weights holds 3 weights for 2 rewards (length, unsure).");
  ToolsOptions tools;
  tools.command.process = child_options(1);
  tools.command.tools = {"triple"};
  EXPECT_THAT(message(tools, {}), HasSubstr("tools.command.tools: the command lists no \"triple\""));
  tools.command.process.command = {"/bin/sh", "-c", "echo 'no module' >&2; exit 3"};
  EXPECT_THAT(message(tools, {}),
              HasSubstr("tools.command: the process cannot be used: it exited with status 3; "
                        "its last words: no module. The command was: [\"/bin/sh\""));
}

TEST(OutsideKind, RewardsThatAreGivenUpEndTheRunOrAreDropped) {
  RealExecutor executor;
  const TaskRow task = row("", 0);
  const std::vector<Message> messages;
  const EpisodeRecord record;
  const EpisodeView view{task, messages, record, test_pool()};
  for (const bool drop : {false, true}) {
    RewardOptions reward;
    reward.command.process = child_options(1);
    // It answers hello, and ends at the next request.
    reward.command.process.command = {
        "/bin/sh", "-c",
        "read -r line; printf '%s\\n' '{\"id\":1,\"result\":{\"protocol\":1,\"rewards\":[{\"name\":"
        "\"mean\"}]}}'; read -r line; exit 4"};
    reward.command.process.restarts = 1;
    reward.command.on_give_up = drop ? "drop" : "end_run";
    auto kind = with_outside(make_environment_kind("arithmetic", Json()), {}, reward);
    run(executor, kind->open());
    auto rewards = kind->rewards();
    // Asked for twice, and both processes ended.
    if (drop) {
      const Result<RewardResult> lost = run(executor, rewards.at(1)->score(view));
      ASSERT_TRUE(lost.ok());
      EXPECT_FALSE(lost->scored);
      EXPECT_FALSE(run(executor, rewards.at(1)->score(view))->scored);
    } else {
      EXPECT_THROW(static_cast<void>(run(executor, rewards.at(1)->score(view))), Error);
    }
  }
}

// The Python package, where there is a Python.
TEST(CommandEnvironment, PlaysWithThePythonPackage) {
  if (std::system("python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null") != 0) {
    GTEST_SKIP() << "There is no python3 of version 3.9 or later.";
  }
  RealExecutor executor;
  CommandOptions process = child_options(1);
  process.command = {"python3", "-m", "stoker_env", "serve", "example_module:GuessNumber"};
  process.working_folder = STOKER_SOURCE_DIR "/python/tests";
  process.environment_variables = {"PYTHONPATH=" STOKER_SOURCE_DIR "/python", "PYTHONDONTWRITEBYTECODE=1"};
  CommandEnvironmentOptions options{.process = process};
  auto kind = make_command(options);
  run(executor, kind->open());
  auto environment = kind->make(test_pool());
  const TaskRow task{"row-0", Json::object({{"number", 8}})};
  ASSERT_TRUE(run(executor, environment->reset(task, 7)).ok());
  ASSERT_EQ(environment->tools().size(), 1u);
  EXPECT_EQ(run(executor, environment->tools()[0]->call(Json::object()))->content, "even");
  EXPECT_EQ(
      run(executor, environment->step({.turn = 1, .text = "4", .content = "4"}))->messages.at(0).content,
      "Higher.");
  EXPECT_TRUE(run(executor, environment->step({.turn = 2, .text = "8", .content = "8"}))->done);
  EXPECT_EQ(run(executor, environment->score(std::nullopt))->reward, 0.5);
  run(executor, environment->close());

  const TestFolder folder;
  options.files.train_file = folder.write("rows.jsonl", "{\"number\": 8}\n");
  kind = make_command(options);
  run(executor, kind->open());
  EXPECT_THAT(run(executor, kind->check_at_rest()), IsEmpty());
}

}  // namespace
}  // namespace stoker
