#include "compute/batch.h"

#include <cmath>

#include <fmt/core.h>
#include "base/error.h"

namespace stoker {

int64_t Batch::token_count() const {
  int64_t count = 0;
  for (const Segment& s : segments) count += static_cast<int64_t>(s.tokens.size());
  return count;
}

void validate(const Batch& batch, int32_t vocabulary_size) {
  const auto check_id = [vocabulary_size](int32_t id, const char* what, size_t index) {
    if (id >= 0 && id < vocabulary_size) return;
    throw internal_error(fmt::format("Batch: {} {} has token id {}, outside the vocabulary of {}.", what,
                                     index, id, vocabulary_size));
  };
  for (size_t s = 0; s < batch.segments.size(); ++s) {
    const Segment& segment = batch.segments[s];
    if (segment.tokens.empty()) throw internal_error(fmt::format("Batch: segment {} has no tokens.", s));
    if (segment.parent < -1 || segment.parent >= static_cast<int64_t>(s)) {
      throw internal_error(fmt::format("Batch: segment {} has parent {}; a parent comes before its children.",
                                       s, segment.parent));
    }
    for (const int32_t id : segment.tokens) check_id(id, "segment", s);
  }
  const size_t n = batch.segment.size();
  if (batch.candidates < 1 || batch.offset.size() != n || batch.temperature.size() != n ||
      batch.target.size() != n * static_cast<size_t>(batch.candidates)) {
    throw internal_error(
        fmt::format("Batch: {} predictions of {} candidates, but {} offsets, {} temperatures and {} targets.",
                    n, batch.candidates, batch.offset.size(), batch.temperature.size(), batch.target.size()));
  }
  for (size_t i = 0; i < n; ++i) {
    if (batch.segment[i] < 0 || batch.segment[i] >= static_cast<int64_t>(batch.segments.size())) {
      throw internal_error(fmt::format("Batch: prediction {} is of segment {}, there are {}.", i,
                                       batch.segment[i], batch.segments.size()));
    }
    const size_t length = batch.segments[batch.segment[i]].tokens.size();
    if (batch.offset[i] < 0 || batch.offset[i] >= static_cast<int64_t>(length)) {
      throw internal_error(fmt::format("Batch: prediction {} has offset {} in segment {} of {} tokens.", i,
                                       batch.offset[i], batch.segment[i], length));
    }
    if (!(batch.temperature[i] > 0) || !std::isfinite(batch.temperature[i])) {
      throw internal_error(fmt::format(
          "Batch: prediction {} has temperature {}; it must be a positive number.", i, batch.temperature[i]));
    }
  }
  for (size_t i = 0; i < batch.target.size(); ++i) {
    check_id(batch.target[i], "target", i);
  }
}

}  // namespace stoker
