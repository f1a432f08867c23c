#include "rollout/depth_finder.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace stoker {
namespace {

constexpr int32_t kGroups = 4;

// A steady run at some depth: seconds of a step, of those the trainer's wait and the time in which only depth
// keeps a group back, tokens per second, and groups that were not needed.
struct Behaviour {
  double step = 10, wait = 0, blocked = 10, tokens = 1000;
  int64_t unused = 0, left = 0, stale = 0;
};
using Run = std::function<Behaviour(int32_t depth)>;

// Plays so many steps of the run, and returns the depths that were found after each.
class Player {
 public:
  explicit Player(int32_t most) : finder(most, kGroups) {}

  std::vector<int32_t> play(int32_t steps, const Run& run) {
    std::vector<int32_t> found;
    for (int32_t step = 0; step < steps; ++step) {
      const Behaviour now = run(finder.depth());
      pass(now.wait, now, true, now.blocked >= now.wait);
      finder.batch_taken(now.left);
      for (int64_t i = 0; i < now.stale; ++i) finder.group_stale();
      const double rest = std::max(0.0, now.blocked - now.wait);
      pass(rest, now, false, true);
      pass(now.step - now.wait - rest, now, false, false);
      const int32_t before = finder.depth();
      const std::optional<std::string> reason = finder.step_ended();
      EXPECT_EQ(reason.has_value(), finder.depth() != before);
      if (reason) reasons.push_back(*reason);
      if (finder.depth() != before) ++moves;
      found.push_back(finder.found());
      depths.insert(finder.depth());
    }
    return found;
  }

  bool told(const std::string& words) const {
    return std::any_of(reasons.begin(), reasons.end(),
                       [&](const std::string& reason) { return reason.find(words) != std::string::npos; });
  }

  DepthFinder finder;
  std::vector<std::string> reasons;
  std::set<int32_t> depths;  // that were tried
  int32_t moves = 0;

 private:
  void pass(double seconds, const Behaviour& now, bool waits, bool blocked) {
    time_ += seconds;
    tokens_ += seconds * now.tokens;
    finder.observe({.time = static_cast<int64_t>(1e9 * time_),
                    .sampled_tokens = static_cast<int64_t>(tokens_),
                    .trainer_waits = waits,
                    .group_blocked = blocked,
                    .unused_groups = now.unused});
  }
  double time_ = 1e5, tokens_ = 0;
};

// Training takes 10 s, and waits until depth is 4; from 5 on a whole batch lies ready.
Behaviour short_of_depth(int32_t depth) {
  const double wait = depth == 1 ? 10 : depth == 2 ? 4 : depth == 3 ? 0.5 : 0;
  return {.step = 10 + wait,
          .wait = wait,
          .blocked = depth > 4 ? 5.0 : 10,
          .tokens = 10000 / (10 + wait),
          .left = depth > 4 ? kGroups + 1 : 0};
}

// The engine is faster with each depth up to `enough`, and training waits for it.
Run short_of_engine(int32_t enough) {
  return [enough](int32_t depth) {
    const double speed = 1000.0 * std::min(depth, enough) / enough;
    const double step = 20000 / speed;
    return Behaviour{.step = step, .wait = step - 5, .blocked = step - 1, .tokens = speed};
  };
}

// Places for episodes are full, whatever the depth above `enough`.
Run short_of_places(int32_t enough) {
  return [enough](int32_t depth) {
    if (depth < enough) return Behaviour{.step = 20, .wait = 10, .blocked = 15, .tokens = 500};
    return Behaviour{
        .step = 15, .wait = 5, .blocked = 0, .tokens = 700, .unused = (depth - enough) * kGroups};
  };
}

TEST(DepthFinder, GoesDeeperUntilTrainingWaitsNoMore) {
  Player player(8);
  const std::vector<int32_t> found = player.play(60, short_of_depth);
  EXPECT_EQ(found.back(), 4);
  EXPECT_EQ(player.depths, (std::set<int32_t>{2, 3, 4, 1}));
  EXPECT_EQ(player.reasons.at(0), "training waited 50 % of the time while depth 1 kept groups back");
  player.play(400, short_of_depth);
  EXPECT_EQ(player.moves, 3) << "a run that does not change is left alone";
}

TEST(DepthFinder, StaysWhereTheEngineIsScarce) {
  for (int32_t enough : {1, 2, 3}) {
    Player player(8);
    const std::vector<int32_t> found = player.play(300, short_of_engine(enough));
    EXPECT_EQ(std::set(found.begin() + 60, found.end()), std::set{enough});
    EXPECT_LE(player.moves, 3 * enough + 14) << "what fails is tried ever more seldom";
    EXPECT_TRUE(player.told("depth " + std::to_string(enough + 1) + " gained nothing"));
  }
}

// Every depth gives more tokens; what is more of them is too old to be trained.
TEST(DepthFinder, TokensThatAreTooOldAreNoGain) {
  const auto deeper_gives = [](int64_t stale) {
    return [stale](int32_t depth) {
      return Behaviour{
          .step = 20, .wait = 10, .blocked = 15, .tokens = 500.0 * depth, .stale = depth > 1 ? stale : 0};
    };
  };
  Player fresh(4), stale(4);
  EXPECT_EQ(fresh.play(100, deeper_gives(0)).back(), 4);
  EXPECT_EQ(stale.play(100, deeper_gives(2)).back(), 1);
  EXPECT_TRUE(stale.told("depth 2 gained no steps, and groups were over the cap"));
  EXPECT_FALSE(fresh.told("gained no"));
}

TEST(DepthFinder, NeverPassesItsBounds) {
  Player at_most(2), at_least(3);
  EXPECT_EQ(at_most.play(100, short_of_depth).back(), 2);
  EXPECT_EQ(at_least.play(100, [](int32_t) { return Behaviour{.left = 9 * kGroups}; }).back(), 1);
}

TEST(DepthFinder, GivesUpWhatIsNotUsed) {
  Player player(8);
  ASSERT_EQ(player.play(60, short_of_depth).back(), 4);
  EXPECT_EQ(player.play(120, short_of_places(2)).back(), 2);
  EXPECT_TRUE(player.told("kept no group back"));
}

TEST(DepthFinder, FollowsARunThatChanges) {
  Player player(8);
  ASSERT_EQ(player.play(60, short_of_depth).back(), 4);
  EXPECT_EQ(player.play(400, short_of_engine(2)).back(), 2) << "what was enough is too much";
  EXPECT_EQ(player.play(700, short_of_depth).back(), 4);
}

}  // namespace
}  // namespace stoker
