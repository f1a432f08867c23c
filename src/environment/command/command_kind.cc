#include "environment/command/command_kind.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "environment/command/command_environment.h"
#include "environment/command/snapshot_check.h"

namespace stoker {
namespace {

constexpr const char* kSection = "environment.command";

// Tasks that are only numbers.
class NumberedTasks final : public TaskSource {
 public:
  NumberedTasks(std::string prefix, uint64_t first, std::optional<uint64_t> count)
      : prefix_(std::move(prefix)), first_(first), count_(count) {}

  TaskRow task(uint64_t ordinal) const override {
    const uint64_t index = first_ + (count_ ? ordinal % *count_ : ordinal);
    return {fmt::format("{}/{}", prefix_, index),
            Json::object({{"index", static_cast<unsigned long long>(index)}})};
  }
  std::optional<uint64_t> epoch_size() const override { return count_; }

 private:
  std::string prefix_;
  uint64_t first_;
  std::optional<uint64_t> count_;
};

class CommandKind final : public EnvironmentKind {
 public:
  CommandKind(CommandEnvironmentOptions options, WorkerPool::MakeLauncher make_launcher)
      : options_(std::move(options)),
        tasks_(options_.files, RowNeeds{.messages = false}, "environment 'command'"),
        pool_(std::make_shared<WorkerPool>(options_.process, kSection, std::move(make_launcher))) {}

  Task<> open() override {
    co_await pool_->open();
    auto outside = std::make_shared<OutsideEnvironment>();
    outside->pool = pool_;
    outside->offered = choose(pool_->greeting());
    outside->tools = co_await ask_for_tools(pool_, outside->offered.name);
    outside_ = std::move(outside);
  }

  Task<std::vector<std::string>> check_at_rest() override {
    std::vector<std::string> problems;
    if (outside()->offered.snapshot) {
      problems = co_await check_snapshot(outside(), training_tasks(0)->task(0), 1);
    }
    for (std::string& problem : co_await pool_->check_at_rest()) problems.push_back(std::move(problem));
    co_return problems;
  }

  std::unique_ptr<Environment> make(Pool&) const override {
    return std::make_unique<CommandEnvironment>(outside());
  }

  std::unique_ptr<TaskSource> training_tasks(uint64_t seed) const override {
    if (!options_.files.train_file.empty()) return tasks_.training(seed);
    return std::make_unique<NumberedTasks>("train", held_out(), std::nullopt);
  }

  std::unique_ptr<TaskSource> evaluation_tasks() const override {
    if (!options_.files.evaluation_file.empty()) return tasks_.evaluation();
    if (!options_.files.train_file.empty()) return tasks_.evaluation();  // says what is missing
    return std::make_unique<NumberedTasks>("evaluation", 0, held_out());
  }

  std::vector<std::unique_ptr<Reward>> rewards() const override {
    std::vector<std::unique_ptr<Reward>> rewards;
    const std::shared_ptr<const OutsideEnvironment> outside = this->outside();
    if (outside->offered.scored) {
      rewards.push_back(std::make_unique<OwnScoreReward>(outside->offered.name));
    }
    for (const std::string& name : pool_->greeting().rewards) {
      rewards.push_back(std::make_unique<OutsideReward>(name, pool_, rewards.empty(), false));
    }
    return rewards;
  }

 private:
  uint64_t held_out() const { return static_cast<uint64_t>(options_.evaluation_tasks); }

  std::shared_ptr<const OutsideEnvironment> outside() const {
    if (!outside_) throw internal_error("The environment 'command' is used before it was opened.");
    return outside_;
  }

  OfferedEnvironment choose(const Greeting& greeting) const {
    std::vector<std::string> names;
    for (const OfferedEnvironment& offered : greeting.environments) {
      if (offered.name == options_.environment) return offered;
      names.push_back(offered.name);
    }
    if (names.empty()) {
      throw input_error(
          fmt::format("{}: the command lists no environment; for rewards or tools alone use reward.command "
                      "or tools.command.",
                      kSection));
    }
    if (options_.environment.empty()) {
      if (names.size() == 1) return greeting.environments[0];
      throw input_error(
          fmt::format("{}.environment is not set; the command lists {}.", kSection, fmt::join(names, ", ")));
    }
    const std::string near = nearest_name(options_.environment, names);
    throw input_error(fmt::format(
        "{}.environment: the command lists no \"{}\"{}; it lists {}.", kSection, options_.environment,
        near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near), fmt::join(names, ", ")));
  }

  CommandEnvironmentOptions options_;
  DatasetTasks tasks_;
  std::shared_ptr<WorkerPool> pool_;
  std::shared_ptr<const OutsideEnvironment> outside_;  // set by open()
};

}  // namespace

std::unique_ptr<EnvironmentKind> make_command_kind(const CommandEnvironmentOptions& options,
                                                   WorkerPool::MakeLauncher make_launcher) {
  return std::make_unique<CommandKind>(options, std::move(make_launcher));
}

std::unique_ptr<EnvironmentKind> make_command(const CommandEnvironmentOptions& options) {
  return make_command_kind(options, {});
}

}  // namespace stoker
