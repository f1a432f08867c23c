#include "rollout/stall_watch.h"

#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "async/sleep.h"
#include "rollout/deadline.h"

namespace stoker {

Task<> watch_for_stalls(RunActivity& activity, StallWatchOptions options,
                        std::function<void(const std::string& sentence)> report) {
  using Stall = std::tuple<bool, EpisodeId, int64_t>;
  check_limit_seconds("stall_seconds", options.stall_seconds);
  Executor& executor = co_await current_executor();
  std::set<Stall> told;  // of those that are still stuck
  while (true) {
    co_await sleep_for(limit_from_seconds(options.stall_seconds / 4));
    const int64_t now = executor.now().time_since_epoch().count();
    const std::vector<ActiveEpisode> stuck = activity.stuck_since(options.stall_seconds, now);
    std::set<Stall> still;
    int32_t sentences = 0, more = 0;
    for (const ActiveEpisode& episode : stuck) {
      const Stall stall{episode.evaluation, episode.id, episode.since};
      still.insert(stall);
      if (told.contains(stall)) continue;
      if (sentences == options.most_sentences) {
        ++more;
        continue;
      }
      ++sentences;
      report(episode.describe(now));
    }
    if (more > 0) report(fmt::format("{} more episodes", more));
    told = std::move(still);
  }
}

}  // namespace stoker
