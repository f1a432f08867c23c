#pragma once

#include <memory>

#include "async/task.h"
#include "environment/environment.h"
#include "trajectory/episode_record.h"

namespace stoker {

// What plays episodes: EpisodeRunner in a run, something scripted in a test of what lies above it.
class EpisodePlayer {
 public:
  virtual ~EpisodePlayer() = default;

  // Plays one episode from reset to reward. Everything that goes wrong in its world is the record's failure;
  // only Cancelled (with the environment closed) and broken promises of Stoker itself are thrown.
  // `resume_from`: a trajectory cut after whole turns, to go on from.
  virtual Task<EpisodeRecord> run(EpisodeId id, TaskRow task,
                                  std::shared_ptr<const Trajectory> resume_from = nullptr) = 0;
};

}  // namespace stoker
