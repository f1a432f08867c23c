#include "environment/command/snapshot_check.h"

#include <fmt/core.h>

#include <iterator>
#include <optional>
#include <utility>

#include "async/timeout.h"

namespace stoker {
namespace {

constexpr Duration kLimit = std::chrono::seconds(60);
// What the policy says, turn by turn: numbers, words and nothing, so that most environments go on.
constexpr const char* kWords[] = {"4", "left", "5", ""};
constexpr const char* kRemedy = "Mend it, or leave 'snapshot' and 'restore' out.";

// How an episode went on behind the snapshot.
struct Branch {
  std::vector<Message> messages;
  std::string ending;
  std::optional<double> reward;

  bool operator==(const Branch&) const = default;
};

Task<Result<Observation>> say(CommandEnvironment* environment, size_t turn) {
  Action action{.turn = static_cast<int32_t>(turn), .text = kWords[turn], .content = kWords[turn]};
  co_return co_await environment->step(action);
}

Task<Branch> go_on(CommandEnvironment* environment) {
  Branch branch;
  std::optional<Failure> failure;
  for (size_t turn = 1; turn < std::size(kWords); ++turn) {
    const Result<Observation> seen = co_await say(environment, turn);
    if (!seen) failure = seen.failure();
    if (!seen) break;
    branch.messages.insert(branch.messages.end(), seen->messages.begin(), seen->messages.end());
    if (seen->done) break;
  }
  if (failure) branch.ending = failure->name();
  if (environment->has_own_score()) {
    const Result<RewardResult> score = co_await environment->score(failure);
    if (score && score->scored) branch.reward = score->reward;
  }
  co_return branch;
}

Task<std::string> compare(CommandEnvironment* original, CommandEnvironment* restored, const TaskRow* task,
                          uint64_t seed) {
  Result<Observation> seen = co_await original->reset(*task, seed);
  if (seen && !seen->done) seen = co_await say(original, 0);
  if (!seen || seen->done) co_return std::string();
  const Result<Json> state = co_await original->snapshot();
  if (!state) {
    co_return fmt::format("snapshot failed as {}: {} {}", state.failure().name(), state.failure().message,
                          kRemedy);
  }
  const Branch expected = co_await go_on(original);
  co_await original->close();
  const Result<Done> opened = co_await restored->restore(*task, seed, *state);
  if (!opened) {
    co_return fmt::format("restore failed as {}: {} {}", opened.failure().name(), opened.failure().message,
                          kRemedy);
  }
  if (co_await go_on(restored) == expected) co_return std::string();
  co_return fmt::format(
      "An episode that was restored from its snapshot went on otherwise than the one that the snapshot was "
      "taken from (task {}); put into the snapshot all that later turns depend on, the state of random "
      "numbers too.",
      task->id);
}

}  // namespace

Task<std::vector<std::string>> check_snapshot(std::shared_ptr<const OutsideEnvironment> outside, TaskRow task,
                                              uint64_t seed) {
  CommandEnvironment original(outside), restored(outside);
  std::vector<std::string> problems;
  const std::optional<std::string> problem =
      co_await with_timeout(kLimit, compare(&original, &restored, &task, seed));
  co_await original.close();
  co_await restored.close();
  if (!problem) {
    problems.push_back(fmt::format(
        "An episode with a snapshot and its restored twin did not end within {} s.", to_seconds(kLimit)));
  } else if (!problem->empty()) {
    problems.push_back(*problem);
  }
  co_return problems;
}

}  // namespace stoker
