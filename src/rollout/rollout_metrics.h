#pragma once

#include "base/metrics.h"
#include "rollout/group.h"

namespace stoker {

// Statistics of a batch's episodes under the names that users search for: TRL's first, verl's as aliases.
//   reward                                   mean over scored episodes
//   rewards/NAME/{mean,std}                  of one reward function, unweighted, over scored episodes
//   success                                  share of all episodes; one that was not scored is no success
//   completions/{mean,min,max}_length        sampled tokens of an episode (response_length/{mean,min,max})
//   completions/clipped_ratio                share that ended at a limit.* (response_length/clip_ratio)
//   num_turns/{mean,min,max}                 turns of the policy
//   tools/call_frequency                     calls an episode
//   tools/failure_frequency                  share of the calls whose result was an error
//   failure/CLASS.REASON                     episodes that ended so, as the last attempt of their member
//   failure/share                            episodes that ended with any failure but limit.*
//   staleness/lag/{mean,p50,p95,p99,max}     per sampled token of scored episodes: batch.step - its version
//   staleness/in_flight/mean                 part of the lag that arose while the episode ran
//   staleness/in_queue/mean                  part that arose between its last token and training
// What has no value (no scored episode, no call, no token) is missing. Lag percentiles are nearest-rank.
MetricMap rollout_metrics(const RolloutBatch& batch);

}  // namespace stoker
