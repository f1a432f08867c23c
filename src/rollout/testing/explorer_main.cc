#include <charconv>
#include <cstring>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "rollout/testing/exploration.h"

namespace {

int64_t runs = 1000;
int64_t first_seed = 0;

// Every kind of decision by every kind of event that can lead to it often. From so many runs on each is
// reached.
constexpr int64_t kRunsThatReachAll = 5000;
constexpr const char* kTransitions[] = {
    "started -> start_episode, first",
    "episode_finished, scored -> nothing",
    "episode_finished, scored -> start_episode, first",
    "episode_finished, scored -> consume_batch",
    "episode_finished, scored -> consume_batch, a rest",
    "episode_finished, scored -> publish",
    "episode_finished, scored -> cancel_episode",
    "episode_finished, scored -> drop_group, only  of  members scored",
    "episode_finished, scored -> drop_group, stale: it is ready",
    "episode_finished, scored -> give_up",
    "episode_finished, failed -> nothing",
    "episode_finished, failed -> start_episode, again",
    "episode_finished, failed -> start_episode, again later",
    "episode_finished, failed -> start_episode, first",
    "episode_finished, failed -> consume_batch",
    "episode_finished, failed -> consume_batch, a rest",
    "episode_finished, failed -> publish",
    "episode_finished, failed -> cancel_episode",
    "episode_finished, failed -> set_aside",
    "episode_finished, failed -> drop_group, failed member",
    "episode_finished, failed -> drop_group, no scored member",
    "episode_finished, failed -> drop_group, only  of  members scored",
    "episode_finished, failed -> give_up",
    "episode_finished, failed -> finish, no tasks are left",
    "trainer_ready -> nothing",
    "trainer_ready -> consume_batch",
    "trainer_ready -> consume_batch, a rest",
    "step_finished -> publish",
    "step_finished -> nothing",
    "step_finished -> start_episode, first",
    "step_finished -> cancel_episode",
    "step_finished -> drop_group, stale: it is ready",
    "step_finished -> drop_group, stale: it runs",
    "step_finished -> set_depth",
    "step_skipped -> nothing",
    "step_skipped -> start_episode, first",
    "step_skipped -> finish, all steps are done",
    "step_skipped -> finish, no tasks are left",
    "published -> nothing",
    "published -> start_episode, first",
    "published -> finish, all steps are done",
    "published -> finish, no tasks are left",
    "stop_requested -> cancel_episode",
    "stop_requested -> finish, a stop was requested",
};

TEST(Exploration, NothingIsLostUnderRandomSchedulesLawsAndFaults) {
  stoker::set_log_level(stoker::LogLevel::kError);
  stoker::testing::ExplorationTotals totals;
  for (int64_t seed = first_seed; seed < first_seed + runs && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("rollout_explorer 1 {}", seed));
    stoker::testing::explore(static_cast<uint64_t>(seed), totals);
  }
  fmt::print("{}", totals.to_text());
  if (runs < kRunsThatReachAll) return;
  for (const char* transition : kTransitions) EXPECT_GT(totals.transitions[transition], 0) << transition;
}

bool read(const char* text, int64_t& number) {
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), number);
  return error == std::errc() && *end == '\0' && number >= 0;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 3 || (argc > 1 && !read(argv[1], runs)) || (argc > 2 && !read(argv[2], first_seed))) {
    fmt::print(stderr, "usage: rollout_explorer [RUNS [FIRST_SEED]]\n");
    return 2;
  }
  return RUN_ALL_TESTS();
}
