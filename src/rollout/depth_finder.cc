#include "rollout/depth_finder.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace stoker {
namespace {

// 1 - slow / fast: the share of its time that the slower one loses.
double lost_share(double slow, double fast) { return fast > 0 ? 1 - slow / fast : 0; }

}  // namespace

double DepthFinder::Measurement::share(int64_t part) const {
  return time == 0 ? 0 : static_cast<double>(part) / static_cast<double>(time);
}

// What the run gains by the deeper of two depths, as a share of its time.
double DepthFinder::gain(const Measurement& shallower, const Measurement& deeper) {
  const auto steps = [](const Measurement& m) { return m.share(m.steps); };
  const auto tokens = [](const Measurement& m) { return m.share(m.tokens); };
  const double by_steps = lost_share(steps(shallower), steps(deeper));
  if (shallower.tokens == 0 || deeper.tokens == 0) return by_steps;
  if (shallower.stale_groups + deeper.stale_groups > 0) return by_steps;
  const auto late_share = [](const Measurement& m) { return static_cast<double>(m.late_steps) / m.steps; };
  const double late = late_share(shallower) * late_share(deeper);
  return late * lost_share(tokens(shallower), tokens(deeper)) + (1 - late) * by_steps;
}

DepthFinder::DepthFinder(int32_t most, int32_t groups_per_batch)
    : most_(most), groups_per_batch_(groups_per_batch) {}

void DepthFinder::observe(const Interval& interval) {
  const int64_t passed = std::max<int64_t>(0, interval.time - last_time_);
  last_time_ = interval.time;
  now_.time += passed;
  step_time_ += passed;
  if (interval.trainer_waits) {
    now_.waited += passed;
    step_waited_ += passed;
  }
  if (interval.group_blocked) now_.blocked += passed;
  // An engine that began again counts from nothing.
  now_.tokens += std::max<int64_t>(0, interval.sampled_tokens - last_tokens_);
  last_tokens_ = interval.sampled_tokens;
  now_.least_unused = std::min(now_.least_unused, interval.unused_groups);
}

void DepthFinder::batch_taken(int64_t groups_left) {
  now_.least_left = std::min(now_.least_left, groups_left);
}

std::optional<std::string> DepthFinder::step_ended() {
  rest_up_ = std::max(0, rest_up_ - 1);
  rest_down_ = std::max(0, rest_down_ - 1);
  const double waited = static_cast<double>(std::exchange(step_waited_, 0));
  const double took = static_cast<double>(std::exchange(step_time_, 0));
  if (settle_ > 0) {
    --settle_;
    now_ = {};
    return std::nullopt;
  }
  ++now_.steps;
  if (waited > kLeastWait * took) ++now_.late_steps;
  const bool clear =
      patience_up_ == kFirstPatience && trial_ >= 0 && now_.short_of_depth() && now_.wait() > kClearWait;
  const bool hardly = now_.wait() < kClearWait / 2;
  if (now_.steps < (clear ? kQuickWindow : hardly ? kLongWindow : kWindow)) return std::nullopt;
  const int32_t before = depth_;
  std::string reason = judge_trial();
  if (depth_ == before) reason = next_move();
  now_ = {};
  if (depth_ == before) return std::nullopt;
  return reason;
}

// Goes back where the trial failed.
std::string DepthFinder::judge_trial() {
  const int32_t trial = std::exchange(trial_, 0);
  if (trial > 0) {
    const bool waits_end = before_.wait() < kClearWait && now_.wait() < before_.wait() / 2;
    if (waits_end || gain(before_, now_) >= kLeastGain) {
      patience_up_ = kFirstPatience;
      rest_down_ = 4 * kFirstPatience;  // one less is known to lose
      return "";
    }
    rest_up_ = patience_up_;
    patience_up_ = std::min(2 * patience_up_, kMostPatience);
    return move(-1, fmt::format("depth {} gained {}", depth_,
                                before_.stale_groups + now_.stale_groups > 0
                                    ? "no steps, and groups were over the cap"
                                    : "nothing, the engine is what is scarce"));
  }
  if (trial < 0) {
    if (gain(now_, before_) < kLeastGain) {
      patience_down_ = kFirstPatience;
      return "";
    }
    rest_down_ = patience_down_;
    patience_down_ = std::min(2 * patience_down_, kMostPatienceDown);
    return move(1, fmt::format("depth {} is slower", depth_));
  }
  return "";
}

std::string DepthFinder::next_move() {
  const double waits = 100 * now_.wait();
  if (now_.short_of_depth() && rest_up_ == 0 && depth_ < most_) {
    before_ = now_;
    trial_ = 1;
    return move(1, fmt::format("training waited {:.0f} % of the time while depth {} kept groups back", waits,
                               depth_));
  }
  if (depth_ == 1) return "";
  if (now_.least_unused >= groups_per_batch_) {
    return move(-1, fmt::format("depth {} kept no group back: the episodes that may run at once do", depth_));
  }
  if (now_.least_left >= groups_per_batch_) {
    return move(-1, fmt::format("at depth {} a whole batch was always ready beside the one taken", depth_));
  }
  const bool engine_limits = now_.wait() > kLeastWait && (rest_up_ > 0 || !now_.short_of_depth());
  if (!engine_limits || rest_down_ > 0) return "";
  before_ = now_;
  trial_ = -1;
  return move(-1,
              fmt::format("training waited {:.0f} % of the time for the engine: less depth than {} is tried",
                          waits, depth_));
}

std::string DepthFinder::move(int32_t by, const std::string& reason) {
  depth_ += by;
  settle_ = kSettleSteps;
  return reason;
}

}  // namespace stoker
