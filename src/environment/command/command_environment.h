#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "environment/command/worker_pool.h"
#include "environment/environment.h"

namespace stoker {

// A tool in a process: of an environment's open episode, or one that needs no episode.
class OutsideTool final : public Tool {
 public:
  // Called in `worker` for `episode`.
  OutsideTool(ToolSchema schema, std::shared_ptr<Worker> worker, std::string episode)
      : schema_(std::move(schema)), worker_(std::move(worker)), episode_(std::move(episode)) {}
  // Called in any process of `pool`, for `owner` (WorkerPool::add_loss).
  OutsideTool(ToolSchema schema, std::shared_ptr<WorkerPool> pool, std::string owner)
      : schema_(std::move(schema)), pool_(std::move(pool)), owner_(std::move(owner)) {}

  const ToolSchema& schema() const override { return schema_; }
  Task<Result<ToolResult>> call(const Json& arguments) override;

 private:
  ToolSchema schema_;
  std::shared_ptr<WorkerPool> pool_;
  std::string owner_;
  std::shared_ptr<Worker> worker_;
  std::string episode_;
};

// What all episodes of one outside environment share.
struct OutsideEnvironment {
  std::shared_ptr<WorkerPool> pool;
  OfferedEnvironment offered;
  std::vector<ToolSchema> tools;
};

// One episode in a process; its place there is kept until the process has answered close. Without admit(),
// reset() or restore() wait for the place.
class CommandEnvironment final : public Environment {
 public:
  explicit CommandEnvironment(std::shared_ptr<const OutsideEnvironment> outside)
      : outside_(std::move(outside)) {}

  Task<> admit(const TaskRow& task, const EpisodeId& id) override;
  Task<Result<Observation>> reset(const TaskRow& task, uint64_t seed) override;
  Task<Result<Observation>> step(const Action& action) override;
  Task<> close() override;
  std::vector<Tool*> tools() override;
  bool has_own_score() const override { return outside_->offered.scored; }
  Task<Result<RewardResult>> score(const std::optional<Failure>& ending) override;

  // Only for environments that offer snapshots. The state of the open episode, and an episode opened in that
  // state in place of reset, in whichever process; close() is due after it as after reset.
  Task<Result<Json>> snapshot();
  Task<Result<Done>> restore(const TaskRow& task, uint64_t seed, const Json& state);

 private:
  Task<Result<Json>> begin(const char* method, const TaskRow& task, uint64_t seed, const Json* state);
  void offer(const std::optional<std::vector<ToolSchema>>& of_episode);

  std::shared_ptr<const OutsideEnvironment> outside_;
  WorkerLease place_;
  std::string episode_;
  Json task_;
  std::vector<std::unique_ptr<OutsideTool>> tools_;
};

// The environment's own verdict as a reward.
class OwnScoreReward final : public Reward {
 public:
  explicit OwnScoreReward(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  Task<Result<RewardResult>> score(const EpisodeView& episode) override;

 private:
  std::string name_;
};

// A reward in a process, over the whole conversation.
class OutsideReward final : public Reward {
 public:
  // `positive_is_success`: without a word of the process, a reward above 0 is a success; else none is.
  // `may_be_dropped`: once the pool is given up, the reward is left out instead of ending the run.
  OutsideReward(std::string name, std::shared_ptr<WorkerPool> pool, bool positive_is_success,
                bool may_be_dropped)
      : name_(std::move(name)),
        pool_(std::move(pool)),
        positive_is_success_(positive_is_success),
        may_be_dropped_(may_be_dropped) {}

  std::string name() const override { return name_; }
  Task<Result<RewardResult>> score(const EpisodeView& episode) override;

 private:
  Task<Result<Json>> ask(const EpisodeView& episode);

  std::string name_;
  std::shared_ptr<WorkerPool> pool_;
  bool positive_is_success_;
  bool may_be_dropped_;
};

// Names an episode over all its attempts, for WorkerPool::lease.
std::string owner_name(const std::string& task_id, const EpisodeId& id);

// {"id", "fields"}, as the protocol wants it.
Json task_to_json(const TaskRow& task);

// Asks for the tools of `environment` (empty: those that need none) and checks that their schemas can be
// validated; Error(kInput) that starts with the pool's section.
Task<std::vector<ToolSchema>> ask_for_tools(std::shared_ptr<WorkerPool> pool, std::string environment);

}  // namespace stoker
