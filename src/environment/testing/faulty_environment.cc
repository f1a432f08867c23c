#include "environment/testing/faulty_environment.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <utility>

#include "async/cancellation.h"
#include "async/pool.h"
#include "async/sleep.h"

namespace stoker::testing {

struct FaultyEnvironmentKind::Shared {
  FaultSchedule schedule;
  FaultyCounts counts;
  std::map<std::string, int32_t> resets_by_task;
};

void ThreadRelease::wait() {
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.wait(lock, [this] { return set_; });
  --waiting_;
}

void ThreadRelease::set() {
  const std::lock_guard lock(mutex_);
  set_ = true;
  changed_.notify_all();
}

int ThreadRelease::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

namespace {

using Shared = FaultyEnvironmentKind::Shared;

// Does what the fault says; true: the caller returns a Failure.
Task<bool> suffer(Fault fault, Duration delay, std::shared_ptr<Shared> shared, Pool* blocking,
                  const char* where) {
  switch (fault) {
    case Fault::kNone:
      co_return false;
    case Fault::kThrow:
      throw std::runtime_error(fmt::format("planted in {}", where));
    case Fault::kThrowForeign:
      throw 42;
    case Fault::kFail:
      co_return true;
    case Fault::kHang: {
      Event never("planted hang");
      co_await never.wait();
      co_return false;
    }
    case Fault::kHangHard:
      co_await shielded(shared->counts.release.wait());
      co_return false;
    case Fault::kSleep:
      co_await sleep_for(delay);
      co_return false;
    case Fault::kBlock:
      co_await blocking->run([release = shared->counts.thread_release] { release->wait(); });
      co_return false;
  }
  co_return false;
}

Failure planted(FailureClass failure_class, const char* where) {
  return {failure_class, "planted", fmt::format("A failure was planted in {}.", where)};
}

class ProbeTool final : public Tool {
 public:
  ProbeTool(std::shared_ptr<Shared> shared, Pool* blocking)
      : shared_(std::move(shared)), blocking_(blocking) {}

  void follow(Fault fault, Duration delay) {
    fault_ = fault;
    delay_ = delay;
  }

  const ToolSchema& schema() const override {
    static const ToolSchema schema = {
        .name = "probe",
        .description = "Says that it was called.",
        .parameters = Json::object({{"type", "object"}, {"properties", Json::object()}})};
    return schema;
  }

  Task<Result<ToolResult>> call(const Json&) override {
    ++shared_->counts.tool_calls;
    if (co_await suffer(fault_, delay_, shared_, blocking_, "the tool")) {
      co_return planted(FailureClass::kTool, "the tool");
    }
    co_return ToolResult{.content = "probed"};
  }

 private:
  std::shared_ptr<Shared> shared_;
  Pool* blocking_;
  Fault fault_ = Fault::kNone;
  Duration delay_{};
};

class FaultyEnvironment final : public Environment {
 public:
  FaultyEnvironment(std::shared_ptr<Shared> shared, Pool* blocking)
      : shared_(std::move(shared)), blocking_(blocking), tool_(shared_, blocking) {
    ++shared_->counts.made;
  }
  ~FaultyEnvironment() override {
    ++shared_->counts.destroyed;
    if (!closed_) ++shared_->counts.lost_unclosed;
  }

  Task<Result<Observation>> reset(const TaskRow& task, uint64_t) override {
    ++shared_->counts.resets;
    if (closed_) ++shared_->counts.used_closed;
    plan_ = shared_->schedule(task, shared_->resets_by_task[task.id]++);
    tool_.follow(plan_.tool, plan_.delay);
    if (co_await suffer(plan_.reset, plan_.delay, shared_, blocking_, "reset")) {
      co_return planted(FailureClass::kEnvironment, "reset");
    }
    co_return Observation{.messages = {say(task.fields.at("prompt").as_string())}};
  }

  Task<Result<Observation>> step(const Action&) override {
    ++shared_->counts.steps;
    if (closed_) ++shared_->counts.used_closed;
    int32_t turn = turn_++;
    Fault fault = turn >= plan_.step_turn ? plan_.step : Fault::kNone;
    if (co_await suffer(fault, plan_.delay, shared_, blocking_, "step")) {
      co_return planted(FailureClass::kEnvironment, "step");
    }
    if (turn + 1 >= plan_.turns) co_return Observation{.done = true};
    co_return Observation{.messages = {say(fmt::format("Turn {}.", turn + 1))}};
  }

  Task<> close() override {
    ++shared_->counts.closes;
    if (std::exchange(closed_, true)) ++shared_->counts.closed_again;
    if (co_await suffer(plan_.close, plan_.delay, shared_, blocking_, "close")) {
      throw std::runtime_error("planted in close");
    }
  }

  std::vector<Tool*> tools() override { return {&tool_}; }

 private:
  static Message say(std::string text) { return {.role = Role::kUser, .content = std::move(text)}; }

  std::shared_ptr<Shared> shared_;
  Pool* blocking_;
  ProbeTool tool_;
  FaultPlan plan_;
  int32_t turn_ = 0;
  bool closed_ = false;
};

class FaultyTasks final : public TaskSource {
 public:
  TaskRow task(uint64_t ordinal) const override {
    return {fmt::format("faulty/{}", ordinal),
            Json::object({{"prompt", fmt::format("Task {}?", ordinal)}, {"ordinal", ordinal}})};
  }
  std::optional<uint64_t> epoch_size() const override { return std::nullopt; }
};

class PlantedReward final : public Reward {
 public:
  explicit PlantedReward(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::string name() const override { return "planted"; }

  Task<Result<RewardResult>> score(const EpisodeView& episode) override {
    ++shared_->counts.scores;
    FaultPlan plan = shared_->schedule(episode.task, static_cast<int32_t>(episode.record.id.attempt));
    if (co_await suffer(plan.reward, plan.delay, shared_, &episode.blocking, "the reward")) {
      co_return planted(FailureClass::kReward, "the reward");
    }
    co_return RewardResult{.reward = 1.0, .success = true};
  }

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace

FaultyEnvironmentKind::FaultyEnvironmentKind(FaultSchedule schedule) : shared_(std::make_shared<Shared>()) {
  shared_->schedule = std::move(schedule);
}

FaultyEnvironmentKind::~FaultyEnvironmentKind() = default;

std::unique_ptr<Environment> FaultyEnvironmentKind::make(Pool& blocking) const {
  return std::make_unique<FaultyEnvironment>(shared_, &blocking);
}

std::unique_ptr<TaskSource> FaultyEnvironmentKind::training_tasks(uint64_t) const {
  return std::make_unique<FaultyTasks>();
}

std::unique_ptr<TaskSource> FaultyEnvironmentKind::evaluation_tasks() const {
  return std::make_unique<FaultyTasks>();
}

std::vector<std::unique_ptr<Reward>> FaultyEnvironmentKind::rewards() const {
  std::vector<std::unique_ptr<Reward>> rewards;
  rewards.push_back(std::make_unique<PlantedReward>(shared_));
  return rewards;
}

FaultyCounts& FaultyEnvironmentKind::counts() const { return shared_->counts; }

}  // namespace stoker::testing
