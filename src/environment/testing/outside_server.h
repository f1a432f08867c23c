#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "io/testing/scripted_process.h"

namespace stoker::testing {

// A process that speaks docs/protocol.md and goes wrong on demand: the member "do" of a task's fields says
// what its episode's step does. It offers the environment "Count" (its own score: the member "value"), the
// snapshots, the tool "double" and the rewards "length" (the number of messages) and "unsure" (never scored).
//
//   crash    the process exits with status 9
//   hang     the process answers nothing more, pings included
//   garbage  it writes 1,100 lines that are no messages, then answers
//   flood    it writes 300 lines to standard error, then answers
//   mute     this step is never answered, unless cancelled
//   long     the answer has more than 100,000 bytes
//   fail     the answer is the error environment.planted
//   limit    the environment's own limit ends the episode
//   count    the episode goes on, and says and counts up its value
//   forget   likewise, but the value is lost in a snapshot
//   told     the step's text is one of these words, or a whole number, which becomes the episode's value
class OutsideServer {
 public:
  struct Reaction {
    enum class Then { kGoOn, kCrash, kHang };
    std::vector<std::string> lines;
    int stderr_lines = 0;
    Then then = Then::kGoOn;
  };

  explicit OutsideServer(int64_t episode_limit = 0) : episode_limit_(episode_limit) {}

  Reaction react(std::string_view line);

  // Requests that broke the contract: two resets of one name, a step without an episode.
  int64_t broken() const { return broken_; }
  int64_t open_episodes() const { return static_cast<int64_t>(episodes_.size()); }
  int64_t closes() const { return closes_; }

 private:
  Json answer(int64_t id, const std::string& method, const Json& params, Reaction& reaction);
  Json step(int64_t id, const Json& params, Reaction& reaction);

  int64_t episode_limit_;
  std::map<std::string, Json> episodes_;  // fields by name
  std::map<int64_t, bool> mute_;          // requests that wait for their cancellation
  int64_t stuck_ = 0;
  int64_t broken_ = 0;
  int64_t closes_ = 0;
};

// The server as a script of io/testing. Counts go to `totals` when it ends.
struct OutsideTotals {
  int64_t broken = 0;
  int64_t closes = 0;
  int64_t left_open = 0;  // episodes of processes that ended in order
};
std::unique_ptr<ProcessScript> make_outside_script(std::shared_ptr<OutsideTotals> totals,
                                                   int64_t episode_limit = 0);

}  // namespace stoker::testing
