#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "rollout/controller.h"
#include "rollout/event_log.h"
#include "rollout/testing/decision_books.h"

namespace stoker {
namespace {

using testing::DecisionBooks;
using testing::random_options;

// A random world around a controller: episodes that end in any order and way, a trainer, a publisher, events
// that come late or twice. Books of its events and decisions check every promise.
class RandomWorld {
 public:
  RandomWorld(uint64_t seed, const ControllerOptions& options, bool may_stop)
      : options_(options),
        random_({.run_seed = seed, .purpose = RandomPurpose::kSchedule}),
        controller_(options),
        books_(options),
        may_stop_(may_stop) {
    log_.push_back(event_log_header(options));
    failure_share_ = random_.below(2) == 0 ? 0 : random_.uniform() * 0.4;
  }

  void run() {
    handle({.kind = RunEventKind::kStarted});
    for (int i = 0; i < 100000 && !books_.over(); ++i) advance();
    ASSERT_TRUE(books_.over()) << "the run did not end";
    while (!books_.running().empty() && !::testing::Test::HasFatalFailure())
      finish(*books_.running().begin());
    EXPECT_EQ(controller_.running_episodes(), 0);
  }

  const std::vector<Json>& log() const { return log_; }
  const ControllerOptions& options() const { return options_; }
  const DecisionBooks& books() const { return books_; }

 private:
  void advance() {
    const uint64_t choice = random_.below(100);
    if (choice < 55 && !books_.running().empty()) return finish(any_running());
    if (choice < 60 && !ended_.empty()) return repeat_late_event();
    if (choice < 75 && books_.publishing() >= 0) return finish_publication();
    if (choice < 90) return trainer_turn();
    if (choice == 99 && may_stop_ && random_.below(20) == 0)
      return handle({.kind = RunEventKind::kStopRequested});
    if (books_.running().empty() && books_.publishing() < 0) trainer_turn();
  }

  const EpisodeId& any_running() {
    return *std::next(books_.running().begin(),
                      static_cast<std::ptrdiff_t>(random_.below(books_.running().size())));
  }

  void finish(EpisodeId id) {
    RunEvent event{.kind = RunEventKind::kEpisodeFinished, .episode = id};
    const double draw = random_.uniform();
    if (draw < failure_share_) {
      static const char* const kFailures[] = {"environment.timeout", "infrastructure.lost", "tool.timeout",
                                              "reward.exception", "limit.wall_clock"};
      event.failure = kFailures[random_.below(std::size(kFailures))];
    } else {
      event.scored = true;
      event.oldest_version = books_.version_at_start(id);
      if (draw > 0.98) event.failure = "limit.turns";
    }
    ended_.push_back(event);
    handle(event);
  }

  void repeat_late_event() {
    const int64_t late = controller_.late_events();
    handle(ended_[random_.below(ended_.size())]);
    EXPECT_EQ(controller_.late_events(), late + 1);
  }

  void finish_publication() { handle({.kind = RunEventKind::kPublished, .version = books_.publishing()}); }

  void trainer_turn() {
    if (books_.training()) {
      // One in twenty had nothing to train: no step.
      if (random_.below(20) == 0) return handle({.kind = RunEventKind::kTrainerReady});
      return handle({.kind = RunEventKind::kStepFinished, .version = books_.trained() + 1});
    }
    if (!books_.trainer_waiting()) handle({.kind = RunEventKind::kTrainerReady});
  }

  void handle(RunEvent event) {
    event.time = ++time_;
    if (options_.adaptive_depth) {
      event.sampled_tokens = sampled_tokens_ += static_cast<int64_t>(random_.below(9));
    }
    const std::vector<Decision> decisions = controller_.handle(event);
    log_.push_back(event_log_line(event, decisions));
    books_.check(event, decisions);
    EXPECT_EQ(controller_.running_episodes(), static_cast<int32_t>(books_.running().size()));
  }

  ControllerOptions options_;
  RandomStream random_;
  Controller controller_;
  DecisionBooks books_;
  bool may_stop_;
  double failure_share_ = 0;
  std::vector<Json> log_;
  int64_t time_ = 0, sampled_tokens_ = 0;
  std::vector<RunEvent> ended_;
};

TEST(ControllerProperty, RandomRunsKeepEveryPromiseAndReplay) {
  int64_t events = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world(seed, random_options(seed), seed % 5 == 0);
    world.run();
    const ReplayReport once = replay_event_log(world.log());
    EXPECT_EQ(once.difference, std::nullopt);
    EXPECT_EQ(once.events, static_cast<int64_t>(world.log().size()) - 1);
    events += once.events;
    if (HasFailure()) return;
  }
  EXPECT_GT(events, 100000);
}

TEST(ControllerProperty, ReplayFromTextGivesTheSameDigest) {
  std::set<uint64_t> digests;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomWorld world(seed, random_options(seed), seed % 3 == 0);
    world.run();
    std::vector<Json> read;
    for (const Json& line : world.log()) read.push_back(Json::parse(line.dump()));
    EXPECT_EQ(replay_event_log(read).digest, replay_event_log(world.log()).digest);
    digests.insert(replay_event_log(read).digest);
  }
  EXPECT_GT(digests.size(), 150u) << "different runs have different digests";
}

TEST(ControllerProperty, RunsThatAreNotStoppedTrainEveryStep) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ControllerOptions options = random_options(seed);
    options.end_ordinal = std::numeric_limits<uint64_t>::max();
    RandomWorld world(seed, options, false);
    world.run();
    EXPECT_EQ(world.books().finish_reason(), "all steps are done");
    EXPECT_EQ(world.books().consumed_groups(),
              static_cast<uint64_t>(options.total_steps * options.groups_per_batch));
  }
}

TEST(ControllerProperty, AdaptiveRunsKeepEveryPromiseAndReplay) {
  int64_t changes = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ControllerOptions options = random_options(seed);
    options.total_steps += 60;
    options.max_ahead += 2;
    options.adaptive_depth = true;
    options.extra_groups = 0;
    options.end_ordinal = std::numeric_limits<uint64_t>::max();
    RandomWorld world(seed, options, seed % 5 == 0);
    world.run();
    EXPECT_EQ(replay_event_log(world.log()).difference, std::nullopt);
    changes += world.books().depth_changes();
    if (HasFailure()) return;
  }
  EXPECT_GT(changes, 40);
}

TEST(ControllerProperty, AResumedRunGoesOnInTheSameLog) {
  RandomWorld first(3, random_options(3), false);
  RandomWorld second(4, random_options(4), false);
  first.run();
  second.run();
  std::vector<Json> log = first.log();
  log.insert(log.end(), second.log().begin(), second.log().end());
  EXPECT_EQ(replay_event_log(log).difference, std::nullopt);
  EXPECT_EQ(replay_event_log(log).events,
            replay_event_log(first.log()).events + replay_event_log(second.log()).events);
}

TEST(ControllerProperty, AnEventLogThatWasChangedIsFound) {
  RandomWorld world(7, random_options(7), false);
  world.run();
  std::vector<Json> log = world.log();
  ASSERT_GT(log.size(), 2u);
  log[1].set("decisions", Json::array());
  const ReplayReport report = replay_event_log(log);
  ASSERT_TRUE(report.difference.has_value());
  EXPECT_EQ(report.difference->rfind("line 2, started: logged []", 0), 0u) << *report.difference;
}

}  // namespace
}  // namespace stoker
