#include "simulation/reference_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "simulation/workload.h"

namespace stoker {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

using TrajectoryId = std::pair<uint64_t, uint32_t>;  // group, member

struct ModelGroup {
  int64_t dispatch_version = 0;
  int done = 0;
};

// Times are in seconds. Whatever generates gets as many tokens as everything else, so that one number, the
// tokens since the beginning, says when each turn ends.
class Model {
 public:
  Model(const Scenario& scenario, const ReferenceRules& rules)
      : scenario_(scenario),
        rules_(rules),
        one_batch_queue_(rules.queue_of_one_batch && scenario.stale_action == "drop" &&
                         scenario.batch_order == "completion"),
        workload_(scenario.law, scenario.sample_cv, scenario.group_size,
                  static_cast<uint64_t>(scenario.seed)) {
    workload_.grow(scenario.growth, static_cast<double>(scenario.steps) * scenario.groups_per_step);
  }

  ReferenceResult run() {
    while (version_ < scenario_.steps) {
      drop_ready_over_cap();
      start_training();
      dispatch();
      next_event();
    }
    std::vector<double> dispatched;
    for (uint64_t group = 0; group <= last_trained_; ++group)
      dispatched.push_back(workload_.group_mean(group));
    const auto mean = [](const std::vector<double>& values) {
      return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    };
    return {.trajectories_per_hour =
                3600 * static_cast<double>(trained_scales_.size()) / (time_ - measured_since_),
            .lag_mean = mean(lags_),
            .length_ratio = mean(trained_scales_) / mean(dispatched)};
  }

 private:
  enum class Trainer { kIdle, kTraining, kDraining, kSyncing };

  double scale(const TrajectoryId& id) { return workload_.scale(id.first, id.second); }
  bool drains() const { return scenario_.update_boundary == "barrier"; }
  bool wait_arm() const { return scenario_.stale_action == "wait"; }
  int64_t lag(const ModelGroup& group) const { return version_ - group.dispatch_version; }
  bool over_cap(const ModelGroup& group) const {
    const bool step_ended = trainer_ == Trainer::kDraining || trainer_ == Trainer::kSyncing;
    return lag(group) + (step_ended && rules_.cap_at_step_end ? 1 : 0) > scenario_.max_staleness;
  }

  // --- Engine and tools

  double rate() const {
    if (trainer_ == Trainer::kSyncing || prefill_end_ < kNever || generating_.empty()) return 0;
    return std::min(scenario_.sequence_tokens_per_second,
                    scenario_.engine_tokens_per_second / static_cast<double>(generating_.size()));
  }

  void begin_turn(const TrajectoryId& id) {
    const double tokens = scale(id) * scenario_.tokens / scenario_.turns;
    generating_.insert({tokens_ + (rules_.whole_tokens ? std::max(1.0, std::round(tokens)) : tokens), id});
  }

  void next_event() {
    const double generation_end =
        rate() > 0 ? time_ + (generating_.begin()->first - tokens_) / rate() : kNever;
    const double tool_end = in_tool_.empty() ? kNever : in_tool_.begin()->first;
    const double now = std::min({generation_end, tool_end, trainer_end_, prefill_end_});
    const bool first_ends = now == generation_end;
    tokens_ = first_ends ? generating_.begin()->first : tokens_ + rate() * (now - time_);
    time_ = now;
    if (first_ends) {
      const TrajectoryId id = generating_.extract(generating_.begin()).value().second;
      in_tool_.insert({time_ + scale(id) * scenario_.tool_seconds / scenario_.turns, id});
    } else if (now == tool_end) {
      end_turn(in_tool_.extract(in_tool_.begin()).value().second);
    } else if (now == prefill_end_) {
      prefill_end_ = kNever;
    } else {
      advance_trainer();
    }
  }

  void end_turn(const TrajectoryId& id) {
    if (++turns_done_.at(id) < scenario_.turns) return begin_turn(id);
    turns_done_.erase(id);
    if (++groups_.at(id.first).done == scenario_.group_size) ready_.push_back(id.first);
    if (trainer_ == Trainer::kDraining && turns_done_.empty()) start_sync();
  }

  // --- Dispatch

  bool may_dispatch() const {
    const auto batch = static_cast<int64_t>(scenario_.groups_per_step);
    if (static_cast<int>(turns_done_.size()) + scenario_.group_size > scenario_.max_concurrent_episodes)
      return false;
    if (trainer_ == Trainer::kDraining || (drains() && trainer_ == Trainer::kSyncing)) return false;
    if (one_batch_queue_) return static_cast<int64_t>(ready_.size()) < batch;
    if (scenario_.extra_groups > 0) {
      const int64_t most = batch + scenario_.extra_groups;
      return static_cast<int64_t>(groups_.size()) < most && dispatched_at_version_ < most;
    }
    return (scenario_.max_ahead + version_ + 1) * batch > dispatched_ - dropped_;
  }

  void dispatch() {
    while (may_dispatch()) {
      const uint64_t group = next_group_++;
      ++dispatched_;
      ++dispatched_at_version_;
      groups_[group].dispatch_version = version_;
      for (int member = 0; member < scenario_.group_size; ++member) {
        const TrajectoryId id{group, static_cast<uint32_t>(member)};
        turns_done_[id] = 0;
        begin_turn(id);
      }
    }
  }

  void drop(uint64_t group) {
    const auto of_group = [&](const auto& item) { return item.second.first == group; };
    std::erase_if(generating_, of_group);
    std::erase_if(in_tool_, of_group);
    std::erase_if(turns_done_, [&](const auto& item) { return item.first.first == group; });
    std::erase(ready_, group);
    groups_.erase(group);
    ++dropped_;
  }

  template <typename Condition>
  void drop_if(Condition condition) {
    std::vector<uint64_t> over;
    for (const auto& [number, group] : groups_) {
      if (condition(number, group)) over.push_back(number);
    }
    for (uint64_t number : over) drop(number);
  }

  // --- Training and synchronisation

  bool is_ready(const ModelGroup& group) const { return group.done == scenario_.group_size; }

  void drop_ready_over_cap() {
    if (wait_arm() || ready_.empty() || version_ < scenario_.max_staleness) return;
    if (one_batch_queue_ && !batch_is_ready()) return;  // this arm looks when training starts
    drop_if([&](uint64_t, const ModelGroup& group) { return is_ready(group) && over_cap(group); });
  }

  bool batch_is_ready() const {
    return trainer_ == Trainer::kIdle &&
           static_cast<int64_t>(ready_.size()) >= static_cast<int64_t>(scenario_.groups_per_step);
  }

  // The next batch, or nothing when it cannot start.
  std::vector<uint64_t> choose() const {
    if (!batch_is_ready()) return {};
    if (wait_arm() && std::ranges::any_of(groups_, [&](const auto& item) {
          return !is_ready(item.second) && lag(item.second) + 1 > scenario_.max_staleness;
        })) {
      return {};
    }
    const auto batch = static_cast<std::ptrdiff_t>(scenario_.groups_per_step);
    std::vector<uint64_t> order = ready_;
    if (scenario_.batch_order == "strict") {
      order.clear();
      for (const auto& [number, group] : groups_) {
        if (static_cast<std::ptrdiff_t>(order.size()) == batch) break;
        if (!is_ready(group)) return {};
        order.push_back(number);
      }
    } else if (scenario_.batch_order == "oldest") {
      std::ranges::sort(
          order, {}, [&](uint64_t number) { return std::pair(groups_.at(number).dispatch_version, number); });
    }
    order.resize(static_cast<size_t>(batch));
    return order;
  }

  void start_training() {
    const std::vector<uint64_t> batch = choose();
    if (batch.empty()) return;
    for (uint64_t number : batch) {
      lags_.push_back(static_cast<double>(lag(groups_.at(number))));
      for (int member = 0; member < scenario_.group_size; ++member) {
        trained_scales_.push_back(workload_.scale(number, static_cast<uint32_t>(member)));
      }
      last_trained_ = std::max(last_trained_, number);
      groups_.erase(number);
      std::erase(ready_, number);
    }
    if (scenario_.extra_groups > 0 && scenario_.max_staleness == 0) {
      drop_if([](uint64_t, const ModelGroup&) { return true; });
    }
    trainer_ = Trainer::kTraining;
    trainer_end_ = time_ + scenario_.train_seconds;
  }

  void advance_trainer() {
    if (trainer_ == Trainer::kSyncing) return end_sync();
    trainer_end_ = kNever;
    trainer_ = Trainer::kDraining;
    if (rules_.cap_at_step_end) cancel_over_cap();
    if (!drains() || turns_done_.empty()) start_sync();
  }

  void cancel_over_cap() {
    if (scenario_.stale_action != "cancel") return;
    drop_if([&](uint64_t, const ModelGroup& group) { return over_cap(group); });
  }

  // Training does not wait for the contexts that are recomputed, generation does.
  void start_sync() {
    trainer_ = Trainer::kSyncing;
    trainer_end_ = time_ + scenario_.publish_seconds;
    if (scenario_.on_update != "recompute") return;
    double contexts = 0;
    for (const auto& [id, turn] : turns_done_) {
      contexts += scale(id) * scenario_.tokens * (turn + 0.5) / scenario_.turns;
    }
    if (contexts > 0) prefill_end_ = trainer_end_ + contexts / scenario_.prefill_tokens_per_second;
  }

  void end_sync() {
    trainer_ = Trainer::kIdle;
    trainer_end_ = kNever;
    ++version_;
    dispatched_at_version_ = 0;
    if (scenario_.on_update == "restart") restart();
    if (!rules_.cap_at_step_end) cancel_over_cap();
    if (version_ == scenario_.warm_up_steps) {
      measured_since_ = time_;
      lags_.clear();
      trained_scales_.clear();
    }
  }

  void restart() {
    generating_.clear();
    in_tool_.clear();
    for (auto& [id, turn] : turns_done_) {
      turn = 0;
      begin_turn(id);
      ModelGroup& group = groups_.at(id.first);
      if (group.done == 0) group.dispatch_version = version_;
    }
  }

  const Scenario& scenario_;
  const ReferenceRules rules_;
  const bool one_batch_queue_;
  Workload workload_;

  double time_ = 0;
  double tokens_ = 0;  // that each sequence would have that generated from the beginning
  std::set<std::pair<double, TrajectoryId>> generating_;  // by the tokens_ at which the turn ends
  std::set<std::pair<double, TrajectoryId>> in_tool_;     // by the time at which it does
  std::map<TrajectoryId, int> turns_done_;                // of those in flight

  std::map<uint64_t, ModelGroup> groups_;  // in flight or ready
  std::vector<uint64_t> ready_;            // in the order in which they became so
  uint64_t next_group_ = 0;
  int64_t dispatched_ = 0, dropped_ = 0, dispatched_at_version_ = 0;

  int64_t version_ = 0;
  Trainer trainer_ = Trainer::kIdle;
  double trainer_end_ = kNever;
  double prefill_end_ = kNever;  // nothing is generated before

  double measured_since_ = 0;
  uint64_t last_trained_ = 0;
  std::vector<double> lags_, trained_scales_;
};

}  // namespace

bool reference_model_covers(const Scenario& scenario) {
  return scenario.endless && !scenario.adaptive_depth && scenario.update_boundary != "turn" &&
         scenario.stale_action != "mask" && scenario.tool_failure_share == 0;
}

ReferenceResult reference_model(const Scenario& scenario, const ReferenceRules& rules) {
  return Model(scenario, rules).run();
}

}  // namespace stoker
