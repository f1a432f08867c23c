#include "rollout/controller.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rollout/controller_test_support.h"
#include "rollout/event_log.h"

namespace stoker {
namespace {

using Kind = DecisionKind;

TEST(Controller, SynchronousModeWaitsForTheServedVersion) {
  Controller controller({.total_steps = 3, .groups_per_batch = 2, .max_concurrent_episodes = 8});
  EXPECT_EQ(of_kind(controller.handle(started()), Kind::kStartEpisode).size(), 2u);
  controller.handle(scored({1, 0}));
  controller.handle(scored({0, 0}));
  EXPECT_EQ(consumed(controller.handle(trainer_ready())), (std::vector<uint64_t>{0, 1}));
  const std::vector<Decision> after_step = controller.handle(step_finished(1));
  ASSERT_EQ(after_step.size(), 1u) << "nothing may be sampled from the old weights";
  EXPECT_EQ(after_step[0], (Decision{.kind = Kind::kPublish, .version = 1}));
  const std::vector<Decision> starts = controller.handle(published(1));
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0].episode, (EpisodeId{2, 0, 0}));
}

TEST(Controller, ADroppedGroupOfASynchronousBatchIsReplacedByTheNextOrdinal) {
  Controller controller(
      {.total_steps = 1, .groups_per_batch = 2, .max_concurrent_episodes = 2, .max_attempts = 1});
  controller.handle(started());
  controller.handle(trainer_ready());
  const std::vector<Decision> decisions = controller.handle(failed({0, 0}, "environment.exception"));
  ASSERT_EQ(decisions.size(), 2u);
  EXPECT_EQ(decisions[0].kind, Kind::kDropGroup);
  EXPECT_EQ(decisions[1].episode, (EpisodeId{2, 0, 0}));
  controller.handle(scored({2, 0}));
  EXPECT_EQ(consumed(controller.handle(scored({1, 0}))), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(controller.dropped_groups(), 1);
}

TEST(Controller, QUE_01_AStragglerThatHitItsDeadlineLeavesItsGroupToGoOn) {
  Controller controller(
      {.total_steps = 1, .groups_per_batch = 2, .group_size = 4, .max_concurrent_episodes = 8});
  controller.handle(started());
  controller.handle(trainer_ready());
  for (uint32_t sample = 0; sample < 4; ++sample) controller.handle(scored({1, sample}));
  for (uint32_t sample = 0; sample < 3; ++sample) controller.handle(scored({0, sample}));
  EXPECT_EQ(consumed(controller.handle(failed({0, 3}, "limit.wall_clock"))), (std::vector<uint64_t>{0, 1}));
}

TEST(Controller, QUE_05_SurplusReadyGroupsComeFirstInTheNextStep) {
  Controller controller(
      {.total_steps = 9, .groups_per_batch = 8, .max_concurrent_episodes = 64, .max_ahead = 1});
  controller.handle(started());
  for (uint64_t ordinal = 0; ordinal < 10; ++ordinal) controller.handle(scored({ordinal, 0}));
  EXPECT_EQ(consumed(controller.handle(trainer_ready())).size(), 8u);
  EXPECT_EQ(controller.ready_groups(), 2);
  controller.handle(step_finished(1));
  controller.handle(trainer_ready());
  std::vector<uint64_t> second;
  for (uint64_t ordinal = 10; ordinal < 16; ++ordinal)
    second = consumed(controller.handle(scored({ordinal, 0})));
  EXPECT_EQ(second, (std::vector<uint64_t>{8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(Controller, QUE_07_AThrowingMemberIsTriedAgainAndNeverForgotten) {
  Controller controller({.total_steps = 1, .group_size = 2, .max_concurrent_episodes = 2, .max_attempts = 2});
  controller.handle(started());
  controller.handle(trainer_ready());
  const std::vector<Decision> again = controller.handle(failed({0, 1}, "environment.exception"));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0], (Decision{.kind = Kind::kStartEpisode, .episode = {0, 1, 1}}));
  controller.handle(scored({0, 0}));
  EXPECT_EQ(consumed(controller.handle(scored({0, 1, 1}))), (std::vector<uint64_t>{0}));
  EXPECT_EQ(controller.retried_episodes(), 1);
}

// Episodes take 1 s, a step 1 s, the synchronisation of weights 10 s: four groups are outstanding at every
// moment.
TEST(Controller, QUE_09_SlotsOpenWithEachStepThatIsServed) {
  Controller controller(
      {.total_steps = 50, .groups_per_batch = 2, .max_concurrent_episodes = 64, .max_ahead = 1});
  controller.handle(started());
  EXPECT_EQ(controller.open_groups(), 4);
  controller.handle(trainer_ready());
  controller.handle(scored({0, 0}));
  EXPECT_EQ(consumed(controller.handle(scored({1, 0}))).size(), 2u);
  // A group that starts while version 1 is under way would be sampled from version 0, and trained two later.
  EXPECT_EQ(of_kind(controller.handle(step_finished(1)), Kind::kStartEpisode).size(), 0u);
  EXPECT_EQ(of_kind(controller.handle(published(1)), Kind::kStartEpisode).size(), 2u);
  EXPECT_EQ(controller.open_groups(), 4);
  // Training goes on while a publication is under way; the next one covers both steps.
  controller.handle(trainer_ready());
  controller.handle(scored({2, 0}));
  EXPECT_EQ(consumed(controller.handle(scored({3, 0}))).size(), 2u);
  controller.handle(step_finished(2));
  controller.handle(trainer_ready());
  controller.handle(scored({4, 0}));
  EXPECT_EQ(consumed(controller.handle(scored({5, 0}))).size(), 2u);
  EXPECT_EQ(of_kind(controller.handle(step_finished(3)), Kind::kStartEpisode).size(), 0u);
  const std::vector<Decision> after = controller.handle(published(2));
  EXPECT_EQ(of_kind(after, Kind::kPublish).at(0).version, 3);
  EXPECT_EQ(of_kind(after, Kind::kStartEpisode).size(), 2u);
  EXPECT_EQ(of_kind(controller.handle(published(3)), Kind::kStartEpisode).size(), 2u);
}

TEST(Controller, QUE_09_ADropOpensASlot) {
  Controller controller({.total_steps = 50,
                         .groups_per_batch = 2,
                         .max_concurrent_episodes = 64,
                         .max_ahead = 1,
                         .max_attempts = 1});
  controller.handle(started());
  EXPECT_EQ(of_kind(controller.handle(failed({3, 0}, "reward.timeout")), Kind::kStartEpisode).size(), 1u);
  EXPECT_EQ(controller.open_groups(), 4);
}

// Groups of version `sampled` when training is at `trained`: consumed or dropped under the bound?
bool is_trained(int64_t sampled, int64_t trained, int64_t bound) {
  Controller controller(
      {.total_steps = 100, .max_concurrent_episodes = 8, .max_ahead = 3, .max_staleness = bound});
  controller.handle(started(trained));
  controller.handle(scored({0, 0}, sampled));
  return !consumed(controller.handle(trainer_ready())).empty();
}

// Dispatched at version 0 with a batch of one group ahead: which groups are dropped, cancelled and trained
// when group 0 goes on running while later ones end.
struct CapOutcome {
  std::vector<uint64_t> trained, dropped;
  std::vector<std::string> cancelled;
  bool waits = false;
};

CapOutcome straggler_under(StaleAction action, BatchOrder order = BatchOrder::kOldestFirst) {
  Controller controller({.total_steps = 100,
                         .max_concurrent_episodes = 8,
                         .max_ahead = 2,
                         .max_staleness = 2,
                         .stale_action = action,
                         .batch_order = order});
  CapOutcome outcome;
  uint64_t next = 1;
  const auto handle = [&](const RunEvent& event) {
    bool batch = false;
    for (const Decision& decision : controller.handle(event)) {
      if (decision.kind == DecisionKind::kConsumeBatch)
        outcome.trained.push_back(decision.groups[0]), batch = true;
      if (decision.kind == DecisionKind::kDropGroup) outcome.dropped.push_back(decision.groups[0]);
      if (decision.kind == DecisionKind::kCancelEpisode)
        outcome.cancelled.push_back(decision.episode.to_string());
    }
    return batch;
  };
  handle({.kind = RunEventKind::kStarted});
  for (int64_t version = 1; version <= 4; ++version) {
    handle({.kind = RunEventKind::kEpisodeFinished,
            .episode = {.task_ordinal = next++},
            .scored = true,
            .oldest_version = version - 1});
    if (!handle({.kind = RunEventKind::kTrainerReady})) {
      outcome.waits = controller.waiting_for_stale();
      return outcome;
    }
    handle({.kind = RunEventKind::kStepFinished, .version = version});
    handle({.kind = RunEventKind::kPublished, .version = version});
  }
  handle({.kind = RunEventKind::kEpisodeFinished, .episode = {}, .scored = true, .oldest_version = 0});
  handle({.kind = RunEventKind::kTrainerReady});
  return outcome;
}

TEST(Controller, TheActionAtTheCapDecidesAboutAStraggler) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  const CapOutcome drop = straggler_under(StaleAction::kDrop);
  EXPECT_THAT(drop.trained, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(drop.dropped, ElementsAre(0));
  EXPECT_THAT(drop.cancelled, IsEmpty());
  const CapOutcome cancel = straggler_under(StaleAction::kCancel);
  EXPECT_THAT(cancel.trained, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(cancel.dropped, ElementsAre(0));
  EXPECT_THAT(cancel.cancelled, ElementsAre("0.0"));
  const CapOutcome wait = straggler_under(StaleAction::kWait);
  EXPECT_THAT(wait.trained, ElementsAre(1, 2)) << "a third step would put group 0 three versions behind";
  EXPECT_TRUE(wait.waits);
  EXPECT_THAT(wait.dropped, IsEmpty());
  const CapOutcome mask = straggler_under(StaleAction::kMask);
  EXPECT_THAT(mask.trained, ElementsAre(1, 2, 3, 4, 0));
  EXPECT_THAT(mask.dropped, IsEmpty());
  const CapOutcome strict = straggler_under(StaleAction::kDrop, BatchOrder::kStrict);
  EXPECT_THAT(strict.trained, IsEmpty());
  EXPECT_FALSE(strict.waits);
}

TEST(Controller, CompletionOrderTakesWhatWasReadyFirst) {
  for (BatchOrder order : {BatchOrder::kOldestFirst, BatchOrder::kCompletion}) {
    Controller controller(
        {.total_steps = 3, .max_concurrent_episodes = 8, .max_ahead = 2, .batch_order = order});
    controller.handle({.kind = RunEventKind::kStarted});
    for (uint64_t ordinal : {2, 0}) {
      controller.handle({.kind = RunEventKind::kEpisodeFinished,
                         .episode = {.task_ordinal = ordinal},
                         .scored = true,
                         .oldest_version = 0});
    }
    const std::vector<Decision> decisions = controller.handle({.kind = RunEventKind::kTrainerReady});
    ASSERT_FALSE(decisions.empty());
    EXPECT_EQ(decisions[0].groups[0], order == BatchOrder::kCompletion ? 2u : 0u);
  }
}

// Synchronous training with redundancy: two groups more than a batch, of which the last to end are lost.
TEST(Controller, OfExtraGroupsTheFirstToEndAreTrainedAndTheRestIsDropped) {
  Controller controller({.total_steps = 2,
                         .groups_per_batch = 2,
                         .max_concurrent_episodes = 8,
                         .extra_groups = 2,
                         .max_staleness = 0,
                         .stale_action = StaleAction::kCancel});
  EXPECT_EQ(of_kind(controller.handle(started()), Kind::kStartEpisode).size(), 4u);
  controller.handle(trainer_ready());
  controller.handle(scored({3, 0}));
  EXPECT_EQ(consumed(controller.handle(scored({1, 0}))), (std::vector<uint64_t>{1, 3}));
  EXPECT_TRUE(controller.handle(scored({0, 0})).empty()) << "nothing starts under the old weights";
  const std::vector<Decision> after_step = controller.handle(step_finished(1));
  EXPECT_EQ(of_kind(after_step, Kind::kDropGroup).size(), 2u) << "ready and running ones alike";
  EXPECT_EQ(of_kind(after_step, Kind::kCancelEpisode).size(), 1u);
  EXPECT_EQ(of_kind(controller.handle(published(1)), Kind::kStartEpisode).size(), 4u);
}

TEST(Controller, WGT_05_TheBoundOfStalenessIsNotOffByOne) {
  EXPECT_TRUE(is_trained(1, 1, 0));
  EXPECT_FALSE(is_trained(1, 2, 0));
  EXPECT_TRUE(is_trained(1, 2, 1));
  EXPECT_FALSE(is_trained(1, 3, 1));
}

TEST(Controller, WGT_05_WhenEverythingInFlightIsTooOldDispatchFillsUpAgain) {
  Controller controller({.total_steps = 9,
                         .groups_per_batch = 2,
                         .max_concurrent_episodes = 64,
                         .max_ahead = 2,
                         .max_staleness = 0});
  controller.handle(started());
  for (uint64_t ordinal = 0; ordinal < 6; ++ordinal) controller.handle(scored({ordinal, 0}, 0));
  EXPECT_EQ(consumed(controller.handle(trainer_ready())).size(), 2u);
  EXPECT_EQ(of_kind(controller.handle(step_finished(1)), Kind::kDropGroup).size(), 4u);
  EXPECT_EQ(of_kind(controller.handle(published(1)), Kind::kStartEpisode).size(), 6u);
  EXPECT_EQ(controller.stale_groups(), 4);
}

TEST(Controller, WGT_09_TheVersionCountsStepsAndABatchWithoutAStepDoesNotStallTheRun) {
  Controller controller({.total_steps = 2, .max_concurrent_episodes = 1});
  controller.handle(started());
  controller.handle(scored({0, 0}));
  EXPECT_EQ(consumed(controller.handle(trainer_ready())).size(), 1u);
  EXPECT_EQ(of_kind(controller.handle(trainer_ready()), Kind::kStartEpisode).size(), 1u);
  EXPECT_EQ(controller.trained_version(), 0);
  EXPECT_EQ(consumed(controller.handle(scored({1, 0}))).size(), 1u);
  EXPECT_EQ(of_kind(controller.handle(step_finished(1)), Kind::kPublish).size(), 1u);
  EXPECT_EQ(of_kind(controller.handle(published(1)), Kind::kFinish).size(), 1u);
}

TEST(Controller, LateEventsAreCountedAndChangeNothing) {
  Controller controller({.total_steps = 1, .group_size = 2, .max_concurrent_episodes = 2});
  controller.handle(started());
  controller.handle(failed({0, 0}, "tool.timeout"));
  EXPECT_TRUE(controller.handle(scored({0, 0, 0})).empty()) << "attempt 0 is over";
  EXPECT_TRUE(controller.handle(scored({9, 0, 0})).empty());
  EXPECT_TRUE(controller.handle(scored({0, 7, 0})).empty());
  EXPECT_EQ(controller.late_events(), 3);
  EXPECT_EQ(controller.running_episodes(), 2);
}

TEST(Controller, DropPolicyCancelsTheOthersWhichHoldTheirSlotsUntilTheyEnd) {
  Controller controller({.total_steps = 1,
                         .group_size = 2,
                         .max_concurrent_episodes = 3,
                         .max_attempts = 1,
                         .failed_members = FailedMemberPolicy::kDrop});
  controller.handle(started());
  const std::vector<Decision> decisions = controller.handle(failed({0, 0}, "reward.exception"));
  EXPECT_EQ(of_kind(decisions, Kind::kCancelEpisode).at(0).episode, (EpisodeId{0, 1, 0}));
  EXPECT_EQ(of_kind(decisions, Kind::kStartEpisode).size(), 2u);
  EXPECT_EQ(controller.running_episodes(), 3);
  controller.handle(failed({0, 1}, "infrastructure.cancelled"));
  EXPECT_EQ(controller.running_episodes(), 2);
  EXPECT_EQ(controller.dropped_groups(), 1);
}

TEST(Controller, AStopCancelsWhatRunsAndFinishes) {
  Controller controller({.total_steps = 5, .group_size = 2, .max_concurrent_episodes = 8, .max_ahead = 1});
  controller.handle(started());
  const std::vector<Decision> decisions = controller.handle({.kind = RunEventKind::kStopRequested});
  EXPECT_EQ(of_kind(decisions, Kind::kCancelEpisode).size(), 4u);
  EXPECT_EQ(decisions.back().kind, Kind::kFinish);
  EXPECT_TRUE(controller.handle(failed({0, 0}, "infrastructure.cancelled")).empty());
  EXPECT_TRUE(controller.handle(trainer_ready()).empty());
  EXPECT_EQ(controller.running_episodes(), 3);
  EXPECT_EQ(controller.open_ordinals(), (std::vector<uint64_t>{0, 1}));
}

TEST(Controller, AResumedRunDispatchesItsOpenOrdinalsFirst) {
  Controller controller({.total_steps = 9, .groups_per_batch = 3, .max_concurrent_episodes = 8});
  RunEvent event = started(4, 20);
  event.open_ordinals = {17, 15};
  const std::vector<Decision> decisions = controller.handle(event);
  ASSERT_EQ(decisions.size(), 3u);
  EXPECT_EQ(decisions[0].episode.task_ordinal, 15u);
  EXPECT_EQ(decisions[1].episode.task_ordinal, 17u);
  EXPECT_EQ(decisions[2].episode.task_ordinal, 20u);
  EXPECT_EQ(controller.next_ordinal(), 21u);
  EXPECT_EQ(controller.open_ordinals(), (std::vector<uint64_t>{15, 17, 20}));
}

TEST(Controller, AFiniteSourceEndsWithASmallerBatch) {
  Controller controller(
      {.total_steps = 9, .groups_per_batch = 2, .max_concurrent_episodes = 8, .end_ordinal = 3});
  controller.handle(started());
  controller.handle(scored({0, 0}));
  controller.handle(scored({1, 0}));
  controller.handle(trainer_ready());
  controller.handle(step_finished(1));
  controller.handle(published(1));
  controller.handle(trainer_ready());
  EXPECT_EQ(consumed(controller.handle(scored({2, 0}, 1))), (std::vector<uint64_t>{2}));
  controller.handle(step_finished(2));
  EXPECT_EQ(controller.handle(published(2)).back().reason, "no tasks are left");
}

TEST(Controller, ARunWithoutStepsIsOverAtOnce) {
  Controller controller({.total_steps = 4, .max_concurrent_episodes = 1});
  RunEvent event = started(3, 100);
  event.trained_batches = 4;  // one of them without an update
  EXPECT_EQ(controller.handle(event).at(0).kind, Kind::kFinish);
}

TEST(Controller, OptionsThatAdmitNothingAreRefused) {
  try {
    Controller controller({.group_size = 8, .max_concurrent_episodes = 4});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("max_concurrent_episodes is 4, less than group_size 8"),
              std::string::npos);
  }
  EXPECT_THROW(Controller({.groups_per_batch = 0}), Error);
  EXPECT_THROW(Controller({.max_staleness = -1}), Error);
  EXPECT_THROW(Controller({.extra_groups = -1}), Error);
  EXPECT_THROW(Controller({.max_ahead = 2, .extra_groups = 1, .adaptive_depth = true}), Error);
  EXPECT_THROW(Controller({.extra_groups = 1, .max_staleness = 0, .batch_order = BatchOrder::kStrict}),
               Error);
  EXPECT_NO_THROW(Controller({.extra_groups = 1, .batch_order = BatchOrder::kStrict}));
  EXPECT_NO_THROW(Controller({.extra_groups = 1, .batch_order = BatchOrder::kCompletion}));
}

TEST(Controller, EventsOutOfProtocolAreRefused) {
  Controller controller({});
  EXPECT_THROW(controller.handle(trainer_ready()), Error);
  controller.handle(started());
  EXPECT_THROW(controller.handle(started()), Error);
  EXPECT_THROW(controller.handle(published(3)), Error);
  EXPECT_THROW(controller.handle(step_finished(1)), Error);
}

TEST(EventLog, ALineIsReadable) {
  const RunEvent event{.kind = RunEventKind::kEpisodeFinished,
                       .time = 1500,
                       .episode = {17, 3, 1},
                       .failure = "environment.timeout",
                       .oldest_version = 4};
  const std::vector<Decision> decisions = {{.kind = Kind::kStartEpisode, .episode = {17, 3, 2}}};
  EXPECT_EQ(
      event_log_line(event, decisions).dump(),
      R"({"event":"episode_finished","time":1500,"episode":"17.3.1","failure":"environment.timeout",)"
      R"("scored":false,"oldest_version":4,"decisions":[{"decision":"start_episode","episode":"17.3.2"}]})");
  EXPECT_EQ(RunEvent::from_json(event.to_json()), event);
}

TEST(EventLog, BrokenLinesAreNamed) {
  std::vector<Json> lines = {event_log_header({})};
  EXPECT_EQ(ControllerOptions::from_json(lines[0].at("options")), ControllerOptions{});
  lines.push_back(Json::object({{"event", "exploded"}, {"time", 0}, {"decisions", Json::array()}}));
  try {
    replay_event_log(lines);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "Line 2 of the event log: An event log names the event 'exploded', which does not exist.");
  }
  EXPECT_THROW(replay_event_log({}), Error);
  for (const char* text : {"", "1", "1.", ".1", "1.2.3.4", "1.x", "-1.2", "1.99999999999"}) {
    EXPECT_THROW(parse_episode_id(text), Error) << text;
  }
  EXPECT_EQ(parse_episode_id("1.2"), (EpisodeId{1, 2, 0}));
}

}  // namespace
}  // namespace stoker
