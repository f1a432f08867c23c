#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rollout/group.h"

namespace stoker::testing {

// A piece of an episode: `kind` and its tokens. Sampled tokens get the log-probability -0.5 - 0.01 * index
// and the version given to make_episode.
struct Piece {
  SpanKind kind = SpanKind::kPrompt;
  std::vector<int32_t> tokens;
  StopReason stop_reason = StopReason::kStopToken;
};

EpisodeRecord make_episode(const std::vector<Piece>& pieces, std::optional<double> reward,
                           uint32_t sample = 0, int64_t version = 0);

Group make_group(uint64_t ordinal, std::vector<EpisodeRecord> episodes);

}  // namespace stoker::testing
