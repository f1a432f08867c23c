#include "train/testing/fake_rollouts.h"

#include <cmath>

#include "async/sleep.h"
#include "base/random.h"
#include "train/testing/table_learner.h"

namespace stoker::testing {

FakeRollouts::FakeRollouts(FakeRolloutOptions options, WeightsPtr weights)
    : options_(std::move(options)), weights_{std::move(weights)}, next_ordinal_(options_.first_ordinal) {}

void FakeRollouts::sample(Trajectory& trajectory, int32_t turn, int32_t count, const EpisodeId& id) const {
  const Weights& weights = *weights_.front();
  StreamKey stream{.run_seed = options_.seed,
                   .task_ordinal = id.task_ordinal,
                   .sample = id.sample,
                   .turn = static_cast<uint32_t>(turn)};
  trajectory.begin_sampled(turn);
  for (int32_t position = 0; position < count; ++position) {
    std::vector<float> all = table_log_probabilities(weights, trajectory.tokens(), 1.0f);
    double draw = random_uniform(stream, position);
    int32_t id_drawn = 0;
    for (double mass = std::exp(all[0]); mass <= draw && id_drawn + 1 < static_cast<int32_t>(all.size());) {
      mass += std::exp(all[++id_drawn]);
    }
    trajectory.append_sampled(id_drawn, all[id_drawn], weights.version());
  }
  trajectory.close_sampled(StopReason::kStopToken);
}

EpisodeRecord FakeRollouts::play(uint64_t ordinal, uint32_t sample_index) const {
  EpisodeRecord episode;
  episode.id = {.task_ordinal = ordinal, .sample = sample_index};
  int32_t vocabulary = weights_.front()->config().vocab_size;
  std::vector<int32_t> prompt = {1, static_cast<int32_t>(ordinal % vocabulary), 3};
  episode.trajectory.append(SpanKind::kPrompt, 0, prompt);
  sample(episode.trajectory, 0, 4, episode.id);
  std::vector<int32_t> observation = {2, 5};
  episode.trajectory.append(SpanKind::kObservation, 0, observation);
  sample(episode.trajectory, 1, 3, episode.id);
  int even = 0;
  for (int32_t i = 0; i < episode.trajectory.size(); ++i) {
    if (episode.trajectory.trained(i) && episode.trajectory.tokens()[i] % 2 == 0) ++even;
  }
  episode.reward = even / 7.0;
  if (options_.edit) options_.edit(episode);
  return episode;
}

Task<std::optional<RolloutBatch>> FakeRollouts::next_batch() {
  if (batches_ >= options_.total_steps) co_return std::nullopt;
  co_await sleep_for(from_seconds(options_.latency_seconds));
  ++batches_;
  RolloutBatch batch{.step = weights_.back()->version()};
  for (int32_t g = 0; g < options_.groups_per_batch; ++g) {
    Group group{.task_ordinal = next_ordinal_++};
    for (int32_t s = 0; s < options_.group_size; ++s) group.episodes.push_back(play(group.task_ordinal, s));
    batch.groups.push_back(std::move(group));
  }
  co_return batch;
}

Task<> FakeRollouts::step_finished(WeightsPtr weights) {
  ++steps_finished_;
  if (options_.publish_seconds > 0) co_await sleep_for(from_seconds(options_.publish_seconds));
  weights_.push_back(std::move(weights));
  while (static_cast<int32_t>(weights_.size()) > options_.lag + 1) weights_.pop_front();
  co_return;
}

}  // namespace stoker::testing
