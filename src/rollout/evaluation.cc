#include "rollout/evaluation.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "async/cancellation.h"
#include "async/event.h"
#include "async/scope.h"
#include "base/error.h"

namespace stoker {
namespace {

std::vector<int32_t> pass_sizes(int32_t samples) {
  std::vector<int32_t> sizes;
  for (int32_t k = 1; k < samples; k *= 2) sizes.push_back(k);
  sizes.push_back(samples);
  return sizes;
}

bool succeeded(const EpisodeRecord& record) { return record.reward.has_value() && record.success; }

// An evaluation in progress: episodes start and are handed over in order of task and sample; what ends before
// an earlier one waits. A start waits in turn when it would run further ahead of what was handed over than
// the window.
class EvaluationRun {
 public:
  EvaluationRun(const EvaluationOptions& options, EpisodePlayer& player, const TaskSource& tasks)
      : options_(options),
        player_(player),
        tasks_(tasks),
        total_(int64_t{options.tasks} * options.samples),
        concurrent_(std::max<int64_t>(options.max_concurrent_episodes, 1)) {}

  Task<EvaluationResult> play() {
    std::exception_ptr failure;
    try {
      co_await run_scope([](Scope& scope, EvaluationRun* self) { return self->start(scope); }, this);
    } catch (...) {
      failure = std::current_exception();
    }
    hand_over(true);
    if (failure) std::rethrow_exception(failure);
    if (handed_ < total_) throw Cancelled(CancelReason::kRequested);
    co_return finish();
  }

 private:
  Task<> start(Scope& scope) {
    for (int64_t worker = 0; worker < std::min(concurrent_, total_); ++worker)
      scope.spawn(work(), "evaluate");
    co_return;
  }

  Task<> work() {
    while (next_ < total_) {
      while (next_ - handed_ >= kWindow * concurrent_) {
        moved_on_.reset();
        co_await moved_on_.wait();
      }
      if (next_ >= total_) co_return;
      co_await check_cancellation();
      const int64_t index = next_++;
      const EpisodeId id{.task_ordinal = static_cast<uint64_t>(index / options_.samples),
                         .sample = static_cast<uint32_t>(index % options_.samples)};
      EpisodeRecord record = co_await player_.run(id, tasks_.task(id.task_ordinal));
      record.purpose = "evaluate";
      ended_.emplace(index, std::move(record));
      hand_over(false);
    }
  }

  // Hands over what has ended up to the first that has not, or past it too.
  void hand_over(bool with_gaps) {
    while (!ended_.empty() && (with_gaps || ended_.begin()->first == handed_)) {
      const auto node = ended_.extract(ended_.begin());
      count(node.mapped());
      ++handed_;
      if (options_.episode_finished) options_.episode_finished(node.mapped());
    }
    moved_on_.set();
  }

  void count(const EpisodeRecord& record) {
    ++result_.episodes;
    if (record.reward) {
      ++result_.scored;
      reward_sum_ += *record.reward;
    }
    token_sum_ += record.trajectory.sampled_count();
    turn_sum_ += record.trajectory.turn_count();
    result_.tool_calls += record.tool_calls;
    result_.tool_errors += record.tool_errors;
    if (record.failure) ++result_.failures[record.failure->name()];
    if (succeeded(record)) {
      ++successes_;
      ++correct_;
    }
    if ((handed_ + 1) % options_.samples != 0) return;
    for (int32_t k : pass_sizes(options_.samples)) {
      result_.pass_at[k] += pass_at_k(options_.samples, correct_, k) / options_.tasks;
    }
    correct_ = 0;
  }

  EvaluationResult finish() {
    const auto played = static_cast<double>(std::max<int64_t>(result_.episodes, 1));
    if (result_.scored > 0) result_.mean_reward = reward_sum_ / static_cast<double>(result_.scored);
    result_.success_rate = static_cast<double>(successes_) / played;
    result_.mean_sampled_tokens = token_sum_ / played;
    result_.mean_turns = turn_sum_ / played;
    return std::move(result_);
  }

  static constexpr int64_t kWindow = 4;  // episodes started and not handed over, in multiples of the limit

  const EvaluationOptions& options_;
  EpisodePlayer& player_;
  const TaskSource& tasks_;
  const int64_t total_;
  const int64_t concurrent_;
  int64_t next_ = 0;                        // the first episode that was not started
  int64_t handed_ = 0;                      // the first that was not handed over
  std::map<int64_t, EpisodeRecord> ended_;  // and not handed over
  Event moved_on_{"evaluation window"};
  EvaluationResult result_;
  double reward_sum_ = 0, token_sum_ = 0, turn_sum_ = 0;
  int64_t successes_ = 0;
  int64_t correct_ = 0;  // of the task that is being handed over
};

}  // namespace

double pass_at_k(int64_t n, int64_t c, int64_t k) {
  if (k < 1 || k > n || c < 0 || c > n) throw internal_error("pass_at_k needs 1 <= k <= n and 0 <= c <= n.");
  if (n - c < k) return 1.0;
  double all_fail = 1.0;
  for (int64_t i = n - c + 1; i <= n; ++i) all_fail *= 1.0 - static_cast<double>(k) / static_cast<double>(i);
  return 1.0 - all_fail;
}

Task<EvaluationResult> evaluate(const EvaluationOptions& options, EpisodePlayer& player,
                                const TaskSource& tasks) {
  EvaluationRun run(options, player, tasks);
  co_return co_await run.play();
}

}  // namespace stoker
