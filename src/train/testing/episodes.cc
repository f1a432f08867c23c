#include "train/testing/episodes.h"

namespace stoker::testing {

EpisodeRecord make_episode(const std::vector<Piece>& pieces, std::optional<double> reward, uint32_t sample,
                           int64_t version) {
  EpisodeRecord episode;
  episode.id.sample = sample;
  episode.reward = reward;
  int32_t turn = 0;
  for (const Piece& piece : pieces) {
    if (piece.kind != SpanKind::kSampled) {
      episode.trajectory.append(piece.kind, turn, piece.tokens);
      continue;
    }
    episode.trajectory.begin_sampled(turn);
    for (int32_t token : piece.tokens) {
      float log_probability = -0.5f - 0.01f * static_cast<float>(episode.trajectory.size());
      episode.trajectory.append_sampled(token, log_probability, version);
    }
    episode.trajectory.close_sampled(piece.stop_reason);
    ++turn;
  }
  return episode;
}

Group make_group(uint64_t ordinal, std::vector<EpisodeRecord> episodes) {
  Group group{.task_ordinal = ordinal, .episodes = std::move(episodes)};
  for (size_t i = 0; i < group.episodes.size(); ++i) {
    group.episodes[i].id = {.task_ordinal = ordinal, .sample = static_cast<uint32_t>(i)};
  }
  return group;
}

}  // namespace stoker::testing
