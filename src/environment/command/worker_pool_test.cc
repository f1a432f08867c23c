#include "environment/command/worker_pool.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/collect.h"
#include "async/run.h"
#include "async/sleep.h"
#include "async/testing.h"
#include "async/timeout.h"
#include "environment/testing/outside_server.h"
#include "io/testing/scripted_process.h"

namespace stoker {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::OutsideTotals;
using testing::ProcessScript;
using testing::ScriptedLauncher;
using testing::ScriptedProcess;

CommandOptions options_for(int processes) {
  CommandOptions options;
  options.command = {"scripted"};
  options.processes = processes;
  return options;
}

// A pool over scripted processes, and what became of them.
struct World {
  std::shared_ptr<OutsideTotals> totals = std::make_shared<OutsideTotals>();
  ScriptedLauncher* launcher = nullptr;
  std::shared_ptr<WorkerPool> pool;

  explicit World(CommandOptions options, ScriptedLauncher::Make make = {}, int64_t episode_limit = 0) {
    if (!make) {
      make = [totals = totals, episode_limit](int) { return make_outside_script(totals, episode_limit); };
    }
    pool = std::make_shared<WorkerPool>(std::move(options), "environment.command",
                                        [this, make](Executor& executor) -> std::unique_ptr<ProcessLauncher> {
                                          auto made = std::make_unique<ScriptedLauncher>(executor, make);
                                          launcher = made.get();
                                          return made;
                                        });
  }
};

// A process that says the same thing to every request: {"id": ID, ...}; nothing when `says` is empty.
class Parrot final : public ProcessScript {
 public:
  explicit Parrot(std::string says) : says_(std::move(says)) {}
  void line(ScriptedProcess& process, std::string_view text) override {
    if (says_.empty()) return;
    Json answer = Json::object({{"id", Json::parse(text).at("id")}});
    const Json says = Json::parse(says_);
    for (const auto& [name, value] : says.as_object()) answer.set(name, value);
    process.say(answer.dump());
  }

 private:
  std::string says_;
};

std::string message_of(const std::exception_ptr& exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

Task<std::string> failure_to_open(WorkerPool* pool) {
  std::exception_ptr thrown;
  try {
    co_await pool->open();
  } catch (...) {
    thrown = std::current_exception();
  }
  co_return message_of(thrown);
}

Task<Result<Json>> episode(WorkerPool* pool, std::string what) {
  const WorkerLease place = co_await pool->lease();
  const std::string name = pool->next_episode();
  Json task = Json::object({{"id", name}, {"fields", Json::object({{"do", what}})}});
  Result<Json> first =
      co_await place.worker().ask("reset", Json::object({{"episode", name}, {"task", std::move(task)}}));
  if (!first) co_return first;
  Result<Json> second = co_await place.worker().ask("step", Json::object({{"episode", name}}));
  if (!second) co_return second;
  co_return co_await place.worker().ask_uncancellable("close", Json::object({{"episode", name}}), {});
}

CO_TEST_SIMULATED(WorkerPool, SpreadsEpisodesWithinEachProcessesLimit) {
  World world(options_for(3), {}, 4);
  co_await world.pool->open();
  co_await world.pool->open();
  EXPECT_EQ(world.pool->greeting().server, "outside-server 1");
  std::vector<Task<Result<Json>>> tasks;
  for (int i = 0; i < 60; ++i) tasks.push_back(episode(world.pool.get(), ""));
  for (const Result<Json>& result : co_await collect_all(std::move(tasks))) EXPECT_TRUE(result.ok());
  EXPECT_EQ(world.launcher->starts(), 3);
  world.pool.reset();
  EXPECT_EQ(world.totals->broken, 0);
  EXPECT_EQ(world.totals->closes, 60);
}

CO_TEST_SIMULATED(WorkerPool, AProcessThatEndsLosesOnlyItsOwnEpisodes) {
  World world(options_for(2));
  co_await world.pool->open();
  std::vector<WorkerLease> places;
  for (int i = 0; i < 4; ++i) places.push_back(co_await world.pool->lease());
  EXPECT_EQ(&places[0].worker(), &places[2].worker());
  places[0].worker().kill("planted");
  const Result<Json> lost = co_await places[2].worker().ask("ping", Json());
  CO_ASSERT_TRUE(!lost.ok());
  EXPECT_EQ(lost.failure().name(), "infrastructure.process_ended");
  EXPECT_THAT(lost.failure().message, HasSubstr("'environment 0' ended: planted"));
  EXPECT_TRUE((co_await places[3].worker().ask("ping", Json())).ok());
  // Replaced within a second.
  co_await sleep_for(seconds(1));
  EXPECT_EQ(world.launcher->starts(), 3);
  WorkerLease fresh = co_await world.pool->lease();
  EXPECT_EQ(fresh.worker().name(), "environment 0");
  EXPECT_TRUE((co_await fresh.worker().ask("ping", Json())).ok());
  EXPECT_EQ(world.pool->replaced(), 1);
}

CO_TEST_SIMULATED(WorkerPool, CrashHangAndGarbageAreFailuresAndCostNothingElse) {
  World world(options_for(4));
  co_await world.pool->open();
  std::vector<Task<Result<Json>>> tasks;
  const char* what[] = {"", "", "crash", "", "hang", "", "", "garbage", "", ""};
  for (int i = 0; i < 20; ++i) tasks.push_back(episode(world.pool.get(), what[i % 10]));
  const std::vector<Result<Json>> results = co_await collect_all(std::move(tasks));
  int fine = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    fine += results[i].ok();
    if (!results[i].ok()) EXPECT_EQ(results[i].failure().name(), "infrastructure.process_ended");
    if (*what[i % 10] != '\0') EXPECT_FALSE(results[i].ok()) << what[i % 10];
  }
  EXPECT_LE(fine, 14);
  // Whoever was in the same process goes on in another.
  EXPECT_TRUE((co_await episode(world.pool.get(), "")).ok());
  EXPECT_GE(world.pool->replaced(), 3);
  EXPECT_EQ(world.pool->given_up(), "");
}

// An episode over at most `most` attempts, a second after each that lost its process.
Task<int> attempts(WorkerPool* pool, std::string owner, std::string what, int most) {
  for (int attempt = 1;; ++attempt) {
    {
      WorkerLease place = co_await pool->lease(owner);
      const std::shared_ptr<Worker> worker = place.shared_worker();
      const std::string name = pool->next_episode();
      Json params = Json::object({{"episode", name}});
      params.set("task", Json::object({{"id", name}, {"fields", Json::object({{"do", what}})}}));
      Result<Json> answer = co_await worker->ask("reset", std::move(params));
      co_await sleep_for(seconds(1));  // all of them are open by now
      if (answer) answer = co_await worker->ask("step", Json::object({{"episode", name}}));
      if (answer) {
        answer = co_await worker->ask_uncancellable("close", Json::object({{"episode", name}}),
                                                    place.release_later());
      }
      if (answer) co_return attempt;
    }
    if (attempt == most) co_return most + 1;
    co_await sleep_for(seconds(1));
  }
}

CO_TEST_SIMULATED(WorkerPool, WhoEndsItsProcessAtEveryAttemptCostsAnybodyElseTwo) {
  for (const int processes : {1, 3}) {
    World world(options_for(processes));
    co_await world.pool->open();
    std::vector<Task<int>> tasks;
    for (int i = 0; i < 100; ++i) {
      tasks.push_back(attempts(world.pool.get(), std::to_string(i), i % 50 == 7 ? "crash" : "", 3));
    }
    const std::vector<int> needed = co_await collect_all(std::move(tasks));
    int lost_twice = 0;
    for (int i = 0; i < 100; ++i) {
      if (i % 50 == 7) EXPECT_EQ(needed[static_cast<size_t>(i)], 4) << i;
      if (i % 50 != 7) EXPECT_LE(needed[static_cast<size_t>(i)], 3) << i;
      lost_twice += needed[static_cast<size_t>(i)] == 3;
    }
    // Beside at most 15 others the second time.
    EXPECT_LE(lost_twice, 30);
    EXPECT_GE(lost_twice, 2);
    co_await sleep_for(seconds(30));
    EXPECT_EQ(world.launcher->running(), processes);
    EXPECT_EQ(world.totals->broken, 0);
  }
}

// One attempt of requests without an episode: the first is answered, the second ends its process.
Task<> good_then_crash(WorkerPool* pool, std::string owner) {
  EXPECT_TRUE((co_await pool->ask("ping", Json(), pool->lost_by(owner))).ok());
  const WorkerLease place = co_await pool->lease(owner);
  place.worker().kill("planted");
  EXPECT_FALSE((co_await place.worker().ask("ping", Json())).ok());
}

CO_TEST_SIMULATED(WorkerPool, AGoodRequestBetweenDoesNotHideWhoEndsItsProcess) {
  World world(options_for(1));
  co_await world.pool->open();
  const WorkerLease bystander = co_await world.pool->lease("bystander");
  co_await good_then_crash(world.pool.get(), "tool");
  EXPECT_TRUE(bystander.worker().gone());
  const WorkerLease again = co_await world.pool->lease("another");
  for (int attempt = 2; attempt < 5; ++attempt) {
    co_await good_then_crash(world.pool.get(), "tool");
    EXPECT_EQ(world.pool->lost_by("tool"), attempt);
    EXPECT_FALSE(again.worker().gone());
  }
}

CO_TEST_SIMULATED(WorkerPool, WhoMustBeAloneIsNotPassedForEver) {
  World world(options_for(1));
  co_await world.pool->open();
  world.pool->add_loss("alone");
  world.pool->add_loss("alone");
  bool granted = false;
  const auto wait = [](WorkerPool* pool, bool* granted) -> Task<int> {
    const WorkerLease place = co_await pool->lease("alone");
    EXPECT_EQ(place.worker().load, 1);
    *granted = true;
    co_return 0;
  };
  // Others come and overlap for as long as it waits.
  const auto roll = [](WorkerPool* pool, const bool* granted, int first) -> Task<int> {
    co_await sleep_for(seconds(first));
    int rounds = 0;
    for (; !*granted && rounds < 50; ++rounds) {
      const std::string owner = fmt::format("{} {}", first, rounds);
      pool->add_loss(owner);
      const WorkerLease place = co_await pool->lease(owner);
      co_await sleep_for(seconds(3));
    }
    co_return rounds;
  };
  std::vector<Task<int>> tasks;
  for (int first = 0; first < 3; ++first) tasks.push_back(roll(world.pool.get(), &granted, first));
  tasks.push_back(wait(world.pool.get(), &granted));
  for (const int rounds : co_await collect_all(std::move(tasks))) EXPECT_LT(rounds, 5);
}

CO_TEST_SIMULATED(WorkerPool, WhoeverLostNothingIsServedByOtherProcesses) {
  World world(options_for(1));
  co_await world.pool->open();
  EXPECT_EQ(co_await attempts(world.pool.get(), "lost", "crash", 2), 3);
  EXPECT_EQ(co_await attempts(world.pool.get(), "another", "crash", 2), 3);
  WorkerLease suspect = co_await world.pool->lease("lost");
  WorkerLease other = co_await world.pool->lease("other");
  EXPECT_NE(&suspect.worker(), &other.worker());
  EXPECT_EQ(suspect.worker().name(), "environment 1");
  // Alone: who lost two as well waits until it is gone.
  EXPECT_FALSE((co_await with_timeout(seconds(60), world.pool->lease("another"))).has_value());
  suspect.release();
  EXPECT_TRUE(static_cast<bool>(co_await world.pool->lease("another")));
  // What ended well is forgotten.
  EXPECT_EQ((co_await world.pool->lease("lost")).worker().name(), "environment 0");
}

CO_TEST_SIMULATED(WorkerPool, OnlyProcessesThatEndInARowAreGivenUp) {
  CommandOptions options = options_for(1);
  options.restarts = 2;
  options.stuck_limit = 1;
  options.heartbeat_seconds = 1;
  World world(options);
  co_await world.pool->open();
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE((co_await episode(world.pool.get(), "crash")).ok());
    EXPECT_TRUE((co_await episode(world.pool.get(), "")).ok());
  }
  EXPECT_EQ(world.pool->given_up(), "");
  // Requests that are never answered are no good end.
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE((co_await with_timeout(seconds(5), episode(world.pool.get(), "mute"))).has_value());
    co_await sleep_for(seconds(5));
  }
  EXPECT_THAT(world.pool->given_up(), HasSubstr("too many of its requests never end"));
}

CO_TEST_SIMULATED(WorkerPool, ACancelledRequestIsToldAndItsProcessGoesOn) {
  World world(options_for(1));
  co_await world.pool->open();
  EXPECT_FALSE((co_await with_timeout(seconds(5), episode(world.pool.get(), "mute"))).has_value());
  EXPECT_TRUE((co_await episode(world.pool.get(), "")).ok());
  const Result<Json> ping = co_await world.pool->ask("ping", Json());
  EXPECT_EQ(ping->at("stuck").as_int(), 1);
  EXPECT_EQ(world.launcher->starts(), 1);
}

CO_TEST_SIMULATED(WorkerPool, AProcessWithStuckThreadsIsReplacedOnceItsEpisodesAreOver) {
  CommandOptions options = options_for(1);
  options.stuck_limit = 2;
  World world(options);
  co_await world.pool->open();
  WorkerLease held = co_await world.pool->lease();
  for (int i = 0; i < 2; ++i) co_await with_timeout(seconds(1), episode(world.pool.get(), "mute"));
  co_await sleep_for(seconds(30));
  EXPECT_EQ(world.launcher->starts(), 2);
  EXPECT_EQ(world.launcher->running(), 2);
  EXPECT_TRUE((co_await held.worker().ask("ping", Json())).ok());
  held.release();
  co_await sleep_for(seconds(1));
  EXPECT_EQ(world.launcher->running(), 1);
}

CO_TEST_SIMULATED(WorkerPool, IsGivenUpWithAClearSentence) {
  CommandOptions options = options_for(1);
  options.restarts = 3;
  World world(options);
  co_await world.pool->open();
  for (int i = 0; i < 4; ++i) EXPECT_FALSE((co_await episode(world.pool.get(), "crash")).ok());
  std::exception_ptr thrown;
  try {
    co_await world.pool->lease();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
    thrown = std::current_exception();
  }
  EXPECT_THAT(
      message_of(thrown),
      HasSubstr("environment.command had to be replaced more than 3 times in a row and are given up; the "
                "last one: it exited with status 9"));
  EXPECT_EQ(message_of(thrown), world.pool->given_up());
  EXPECT_EQ(world.launcher->running(), 0);
}

CO_TEST_SIMULATED(WorkerPool, WhoeverWaitsHearsOfTheEnd) {
  CommandOptions options = options_for(1);
  options.restarts = 0;
  options.episodes_per_process = 1;
  World world(options);
  co_await world.pool->open();
  std::vector<Task<Result<Json>>> tasks;
  for (int i = 0; i < 3; ++i) tasks.push_back(episode(world.pool.get(), "crash"));
  std::exception_ptr thrown;
  try {
    co_await collect_all(std::move(tasks));
  } catch (...) {
    thrown = std::current_exception();
  }
  EXPECT_THAT(message_of(thrown), HasSubstr("given up"));
}

CO_TEST_SIMULATED(WorkerPool, KeepsTrying) {
  // Every second start fails before hello: the pauses grow, and the pool goes on.
  auto totals = std::make_shared<OutsideTotals>();
  World world(options_for(1), [totals](int start) -> std::unique_ptr<ProcessScript> {
    if (start == 1) return nullptr;
    if (start == 2)
      return std::make_unique<Parrot>(R"({"error":{"class":"infrastructure","reason":"load_failed"}})");
    return make_outside_script(totals);
  });
  co_await world.pool->open();
  EXPECT_FALSE((co_await episode(world.pool.get(), "crash")).ok());
  EXPECT_TRUE((co_await episode(world.pool.get(), "")).ok());
  EXPECT_EQ(world.launcher->starts(), 4);
}

CO_TEST_SIMULATED(WorkerPool, WhatCannotBeGreetedIsNamedAtTheStart) {
  auto message = [](const char* says) -> ScriptedLauncher::Make {
    return [says](int) { return says == nullptr ? nullptr : std::make_unique<Parrot>(says); };
  };
  World none(options_for(2), message(nullptr));
  EXPECT_THAT(co_await failure_to_open(none.pool.get()), HasSubstr("scripted cannot be started"));
  World silent(options_for(2), message(""));
  EXPECT_THAT(co_await failure_to_open(silent.pool.get()), HasSubstr("had not answered hello after 60 s"));
  World broken(
      options_for(2),
      message(
          R"({"error":{"class":"infrastructure","reason":"load_failed","message":"No module named 'game'."}})"));
  EXPECT_THAT(co_await failure_to_open(broken.pool.get()), HasSubstr("No module named 'game'."));
  World newer(options_for(2), message(R"({"result":{"protocol":2}})"));
  EXPECT_THAT(co_await failure_to_open(newer.pool.get()), HasSubstr("it speaks version 2"));
  EXPECT_EQ(newer.launcher->starts(), 1);
  EXPECT_THAT(co_await failure_to_open(newer.pool.get()), HasSubstr("it speaks version 2"));
}

CO_TEST_SIMULATED(WorkerPool, AClosePastItsDeadlineFreesItsPlaceWhenItIsAnswered) {
  CommandOptions options = options_for(1);
  options.episodes_per_process = 1;
  World world(options);
  co_await world.pool->open();
  bool settled = false;
  {
    WorkerLease place = co_await world.pool->lease();
    EXPECT_FALSE((co_await with_timeout(
                      Duration(1), place.worker().ask_uncancellable("close", Json::object({{"episode", "x"}}),
                                                                    [&settled] { settled = true; })))
                     .has_value());
    EXPECT_FALSE(settled);
  }
  co_await sleep_for(seconds(1));
  EXPECT_TRUE(settled);
  EXPECT_TRUE((co_await episode(world.pool.get(), "")).ok());
}

CO_TEST_SIMULATED(WorkerPool, ACloseThatIsNeverAnsweredKeepsNothingAlive) {
  World world(options_for(1));
  co_await world.pool->open();
  EXPECT_FALSE((co_await with_timeout(seconds(1), episode(world.pool.get(), "hang"))).has_value());
  {
    WorkerLease place = co_await world.pool->lease();
    const std::shared_ptr<Worker> worker = place.shared_worker();
    EXPECT_FALSE((co_await with_timeout(
                      seconds(1), worker->ask_uncancellable("close", Json::object(), place.release_later())))
                     .has_value());
    EXPECT_EQ(worker->load, 1);
  }
  const std::weak_ptr<WorkerPool> pool = world.pool;
  world.pool.reset();
  EXPECT_TRUE(pool.expired());
}

TEST(WorkerPoolOptions, AreChecked) {
  EXPECT_THROW(WorkerPool(CommandOptions{}, "environment.command"), Error);
  CommandOptions options = options_for(1);
  options.environment_variables = {"NAME"};
  try {
    WorkerPool pool(options, "reward.command");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "reward.command.environment_variables holds \"NAME\"; write NAME=value.");
  }
}

}  // namespace
}  // namespace stoker
