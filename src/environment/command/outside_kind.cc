#include "environment/command/outside_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "async/collect.h"
#include "base/error.h"
#include "environment/command/command_environment.h"

namespace stoker {
namespace {

// An environment with the tools of processes beside its own.
class ToolEnvironment final : public Environment {
 public:
  ToolEnvironment(std::unique_ptr<Environment> inner, const std::vector<ToolSchema>& schemas,
                  std::shared_ptr<WorkerPool> pool)
      : inner_(std::move(inner)), schemas_(schemas), pool_(std::move(pool)) {
    make_tools({});
  }

  Task<> admit(const TaskRow& task, const EpisodeId& id) override {
    owner_ = owner_name(task.id, id);
    lost_before_ = pool_->lost_by(owner_);
    make_tools(owner_);
    return inner_->admit(task, id);
  }
  Task<Result<Observation>> reset(const TaskRow& task, uint64_t seed) override {
    return inner_->reset(task, seed);
  }
  Task<Result<Observation>> step(const Action& action) override { return inner_->step(action); }
  Task<> close() override {
    // An attempt under which no process ended: no other will be held against it.
    if (pool_->lost_by(owner_) == lost_before_) pool_->forget(owner_);
    return inner_->close();
  }
  bool has_own_score() const override { return inner_->has_own_score(); }
  Task<Result<RewardResult>> score(const std::optional<Failure>& ending) override {
    return inner_->score(ending);
  }
  std::vector<Tool*> tools() override {
    std::vector<Tool*> all = inner_->tools();
    for (const auto& tool : tools_) {
      for (const Tool* known : all) {
        if (known->schema().name != tool->schema().name) continue;
        throw input_error(
            fmt::format("Both the environment and tools.command offer a tool '{}'; leave one out with "
                        "tools.command.tools.",
                        known->schema().name));
      }
      all.push_back(tool.get());
    }
    return all;
  }

 private:
  void make_tools(const std::string& owner) {
    tools_.clear();
    for (const ToolSchema& schema : schemas_) {
      tools_.push_back(std::make_unique<OutsideTool>(schema, pool_, owner));
    }
  }

  std::unique_ptr<Environment> inner_;
  const std::vector<ToolSchema>& schemas_;  // the kind's
  std::shared_ptr<WorkerPool> pool_;
  std::string owner_;
  int lost_before_ = 0;
  std::vector<std::unique_ptr<OutsideTool>> tools_;
};

// `wanted` out of `listed` (all when empty), in the order wanted.
std::vector<std::string> chosen(const std::vector<std::string>& wanted,
                                const std::vector<std::string>& listed, const std::string& key) {
  for (const std::string& name : wanted) {
    if (std::find(listed.begin(), listed.end(), name) != listed.end()) continue;
    const std::string near = nearest_name(name, listed);
    throw input_error(fmt::format("{}: the command lists no \"{}\"{}; it lists {}.", key, name,
                                  near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near),
                                  listed.empty() ? "none" : fmt::format("{}", fmt::join(listed, ", "))));
  }
  if (wanted.empty() && listed.empty()) throw input_error(fmt::format("{}: the command lists none.", key));
  return wanted.empty() ? listed : wanted;
}

class OutsideKind final : public EnvironmentKind {
 public:
  OutsideKind(std::unique_ptr<EnvironmentKind> inner, const ToolsOptions& tools, const RewardOptions& reward,
              const WorkerPool::MakeLauncher& make_launcher)
      : inner_(std::move(inner)), tools_(tools), reward_(reward) {
    if (!tools.command.process.command.empty()) {
      tool_pool_ = std::make_shared<WorkerPool>(tools.command.process, "tools.command", make_launcher);
    }
    if (!reward.command.process.command.empty()) {
      reward_pool_ = std::make_shared<WorkerPool>(reward.command.process, "reward.command", make_launcher);
    }
  }

  Task<> open() override {
    co_await inner_->open();
    if (tool_pool_) co_await open_tools();
    if (reward_pool_) {
      co_await reward_pool_->open();
      names_ = chosen(reward_.command.rewards, reward_pool_->greeting().rewards, "reward.command.rewards");
    }
    opened_ = true;
    check_rewards();
  }

  Task<std::vector<std::string>> check_at_rest() override {
    std::vector<std::string> problems = co_await inner_->check_at_rest();
    for (const std::shared_ptr<WorkerPool>& pool : {tool_pool_, reward_pool_}) {
      if (!pool) continue;
      for (std::string& problem : co_await pool->check_at_rest()) problems.push_back(std::move(problem));
    }
    co_return problems;
  }

  std::unique_ptr<Environment> make(Pool& blocking) const override {
    std::unique_ptr<Environment> environment = inner_->make(blocking);
    if (!tool_pool_) return environment;
    return std::make_unique<ToolEnvironment>(std::move(environment), schemas_, tool_pool_);
  }
  std::unique_ptr<TaskSource> training_tasks(uint64_t seed) const override {
    return inner_->training_tasks(seed);
  }
  std::unique_ptr<TaskSource> evaluation_tasks() const override { return inner_->evaluation_tasks(); }
  std::optional<Demonstration> demonstration(uint64_t index, uint64_t seed) const override {
    return inner_->demonstration(index, seed);
  }

  std::vector<std::unique_ptr<Reward>> rewards() const override {
    if (!opened_) throw internal_error("Rewards of reward.command are asked for before it was opened.");
    std::vector<std::unique_ptr<Reward>> rewards;
    if (reward_.native) rewards = inner_->rewards();
    const bool drop = reward_.command.on_give_up == "drop";
    for (const std::string& name : names_) {
      rewards.push_back(std::make_unique<OutsideReward>(name, reward_pool_, rewards.empty(), drop));
    }
    return rewards;
  }

  std::vector<double> reward_weights() const override {
    std::vector<double> weights;
    if (reward_.native) {
      weights = reward_.native_weights.empty() ? inner_->reward_weights() : reward_.native_weights;
      weights.resize(inner_->rewards().size(), 1.0);
    }
    std::vector<double> outside = reward_.command.weights;
    outside.resize(names_.size(), 1.0);
    weights.insert(weights.end(), outside.begin(), outside.end());
    return weights;
  }

 private:
  Task<> open_tools() {
    co_await tool_pool_->open();
    const std::vector<std::string> names =
        chosen(tools_.command.tools, tool_pool_->greeting().tools, "tools.command.tools");
    for (const ToolSchema& schema : co_await ask_for_tools(tool_pool_, "")) {
      if (std::find(names.begin(), names.end(), schema.name) != names.end()) schemas_.push_back(schema);
    }
  }

  void check_rewards() const {
    const std::vector<double>& weights = reward_.command.weights;
    if (!weights.empty() && weights.size() != names_.size()) {
      throw input_error(fmt::format("reward.command.weights holds {} weights for {} rewards ({}).",
                                    weights.size(), names_.size(), fmt::join(names_, ", ")));
    }
    if (!reward_.native) return;
    const std::vector<std::unique_ptr<Reward>> native = inner_->rewards();
    if (!reward_.native_weights.empty() && reward_.native_weights.size() != native.size()) {
      throw input_error(
          fmt::format("reward.native_weights holds {} weights, but the environment has {} rewards.",
                      reward_.native_weights.size(), native.size()));
    }
    for (const auto& reward : native) {
      if (std::find(names_.begin(), names_.end(), reward->name()) == names_.end()) continue;
      throw input_error(
          fmt::format("Both the environment and reward.command have a reward '{}'; set reward.native = "
                      "false, or rename one.",
                      reward->name()));
    }
  }

  std::unique_ptr<EnvironmentKind> inner_;
  ToolsOptions tools_;
  RewardOptions reward_;
  std::shared_ptr<WorkerPool> tool_pool_;
  std::shared_ptr<WorkerPool> reward_pool_;
  bool opened_ = false;
  std::vector<ToolSchema> schemas_;
  std::vector<std::string> names_;  // of the outside rewards
};

}  // namespace

std::unique_ptr<EnvironmentKind> with_outside(std::unique_ptr<EnvironmentKind> inner,
                                              const ToolsOptions& tools, const RewardOptions& reward,
                                              WorkerPool::MakeLauncher make_launcher) {
  if (tools.command.process.command.empty() && reward.command.process.command.empty() && reward.native &&
      reward.native_weights.empty()) {
    return inner;
  }
  return std::make_unique<OutsideKind>(std::move(inner), tools, reward, make_launcher);
}

}  // namespace stoker
