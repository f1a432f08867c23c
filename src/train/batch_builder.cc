#include "train/batch_builder.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "train/forest_builder.h"
#include "trajectory/failure_rules.h"

namespace stoker {
namespace {

// One episode that belongs to the denominator of the step.
struct Row {
  const EpisodeRecord* episode = nullptr;
  uint64_t group = 0;  // position in the batch: shared prompts are looked for within it
  double advantage = 0;
  bool computed = true;       // takes part in the forward pass
  int32_t prompt_length = 0;  // tokens before the first sampled one
  int32_t length = 0;         // past the last sampled token
  int64_t sampled = 0;        // that carry loss
  int64_t stale = 0;          // sampled, but older than the oldest trained version
};

bool world_failed(const EpisodeRecord& episode) {
  return episode.failure.has_value() && is_worlds_fault(*episode.failure);
}

// The policy was stopped before it had ended by itself.
bool truncated(const EpisodeRecord& episode) {
  if (episode.failure && episode.failure->failure_class == FailureClass::kLimit) return true;
  const std::vector<Span>& spans = episode.trajectory.spans();
  auto last = std::find_if(spans.rbegin(), spans.rend(),
                           [](const Span& span) { return span.kind == SpanKind::kSampled; });
  return last != spans.rend() &&
         (last->stop_reason == StopReason::kLength || last->stop_reason == StopReason::kAborted);
}

// Where the row's prompt and its last sampled token end.
void measure(Row& row, int64_t oldest_trained_version) {
  const Trajectory& trajectory = row.episode->trajectory;
  for (int32_t i = 0; i < trajectory.size(); ++i) {
    if (!trajectory.trained(i)) continue;
    if (row.sampled + row.stale == 0) row.prompt_length = i;
    if (trajectory.version(i) < oldest_trained_version) {
      ++row.stale;
    } else {
      row.length = i + 1;
      ++row.sampled;
    }
    if (!std::isfinite(trajectory.log_probability(i))) {
      throw internal_error("Episode " + row.episode->id.to_string() + ": sampled token " + std::to_string(i) +
                           " has no finite log-probability.");
    }
  }
  if (row.sampled + row.stale > 0 && row.prompt_length == 0) {
    throw internal_error("Episode " + row.episode->id.to_string() +
                         " begins with a sampled token: there is no context that could predict it.");
  }
}

class BatchBuilder {
 public:
  BatchBuilder(const RolloutBatch& rollout, const BatchBuilderOptions& options)
      : rollout_(rollout), options_(options) {}

  TrainingBatch build() {
    assign_advantages();
    for (size_t g = 0; g < rollout_.groups.size(); ++g) {
      for (size_t member = 0; member < rollout_.groups[g].episodes.size(); ++member) select_row(g, member);
    }
    weigh();
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].computed) place(rows_[i], weights_[i]);
    }
    return std::move(result_);
  }

 private:
  void assign_advantages();
  void select_row(size_t group, size_t member);
  void weigh();
  void place(const Row& row, double weight);

  const RolloutBatch& rollout_;
  const BatchBuilderOptions& options_;
  std::vector<GroupAdvantages> advantages_;
  std::vector<Row> rows_;                // of the denominator, in order
  std::vector<double> weights_;          // of each row's tokens
  std::optional<ForestBuilder> forest_;  // of the last micro-batch
  int64_t micro_batch_tokens_ = 0;       // of the last micro-batch
  TrainingBatch result_;
};

void BatchBuilder::assign_advantages() {
  std::vector<GroupRewards> rewards;
  for (const Group& group : rollout_.groups) {
    GroupRewards of_group;
    for (const EpisodeRecord& episode : group.episodes) {
      of_group.push_back(world_failed(episode) ? std::nullopt : episode.reward);
    }
    rewards.push_back(std::move(of_group));
  }
  advantages_ = batch_advantages(rewards, options_.advantage_scale, options_.advantage_epsilon);

  BatchCounts& counts = result_.counts;
  counts.groups = static_cast<int64_t>(advantages_.size());
  for (const GroupAdvantages& group : advantages_) {
    auto scored = std::ranges::count(group.scored, true);
    counts.zero_variance_groups += group.zero_variance ? 1 : 0;
    counts.scored_rows += scored;
    counts.reward_sum += group.mean * static_cast<double>(scored);
    counts.reward_std_sum += group.std;
    counts.scored_groups += scored > 0 ? 1 : 0;
  }
}

// Decides in which count an episode ends up and whether it belongs to the denominator.
void BatchBuilder::select_row(size_t group, size_t member) {
  const EpisodeRecord& episode = rollout_.groups[group].episodes[member];
  const GroupAdvantages& advantages = advantages_[group];
  BatchCounts& counts = result_.counts;
  ++counts.rows;
  if (world_failed(episode)) {
    ++counts.failed_rows[episode.failure->name()];
    return;
  }
  if (!advantages.scored[member]) {
    ++counts.unscored_rows;
    return;
  }
  if (options_.mask_truncated && truncated(episode)) {
    ++counts.truncated_rows;
    return;
  }
  Row row{.episode = &episode, .group = group, .advantage = advantages.advantage[member]};
  measure(row, rollout_.oldest_trained_version);
  counts.stale_tokens += row.stale;
  if (row.sampled == 0) {
    ++(row.stale == 0 ? counts.empty_rows : counts.stale_rows);
    return;
  }
  row.computed = !advantages.zero_variance || options_.zero_variance == ZeroVariance::kTrain;
  ++(row.computed ? counts.trained_rows : counts.zero_variance_rows);
  if (row.computed || options_.zero_variance == ZeroVariance::kSkip) rows_.push_back(row);
}

// One denominator for the whole step, before anything is cut into micro-batches.
void BatchBuilder::weigh() {
  std::vector<int64_t> tokens;
  for (const Row& row : rows_) {
    tokens.push_back(row.sampled);
    result_.counts.denominator_tokens += row.sampled;
  }
  weights_ = aggregation_weights(tokens, options_.aggregation);
}

void BatchBuilder::place(const Row& row, double weight) {
  const Trajectory& trajectory = row.episode->trajectory;
  std::vector<MicroBatch>& batches = result_.micro_batches;
  auto cost = [&] { return forest_->cost(trajectory.tokens(), row.prompt_length, row.length, row.group); };
  if (batches.empty() || micro_batch_tokens_ + cost() > options_.micro_batch_tokens) {
    batches.emplace_back();
    // A forest is filled before the next one begins, so the growing vector moves only finished ones.
    forest_.emplace(&batches.back().batch);
    micro_batch_tokens_ = 0;
  }
  MicroBatch& micro_batch = batches.back();
  micro_batch_tokens_ += cost();
  result_.counts.forward_tokens += cost();
  forest_->add_row(trajectory.tokens(), row.prompt_length, row.length, row.group);
  for (int32_t i = row.prompt_length; i < row.length; ++i) {
    if (!trajectory.trained(i) || trajectory.version(i) < rollout_.oldest_trained_version) continue;
    forest_->predict(i, options_.temperature);
    micro_batch.behaviour_log_probability.push_back(trajectory.log_probability(i));
    micro_batch.advantage.push_back(row.advantage);
    micro_batch.weight.push_back(weight);
    micro_batch.version.push_back(trajectory.version(i));
    micro_batch.mixed.push_back(trajectory.mixed(i) ? 1 : 0);
  }
  ++micro_batch.rows;
  result_.counts.trained_tokens += row.sampled;
}

}  // namespace

TrainingBatch build_training_batch(const RolloutBatch& rollout, const BatchBuilderOptions& options) {
  if (!(options.temperature > 0)) {
    throw input_error(
        "Training needs a sampling temperature above 0: greedy samples of a group are all alike.");
  }
  return BatchBuilder(rollout, options).build();
}

}  // namespace stoker
