#include "cli/training_engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "async/cancellation.h"
#include "base/json.h"
#include "engine/process_engine.h"
#include "io/system_process.h"

namespace stoker {
namespace {

class NativeMaker final : public ReplicaMaker {
 public:
  NativeMaker(Session& session, std::string name) : session_(session), name_(std::move(name)) {}

  Task<Result<std::shared_ptr<ReplicaEngine>>> make(WeightsPtr weights) override {
    co_return std::shared_ptr<ReplicaEngine>(session_.make_engine(weights));
  }
  std::string name() const override { return name_; }

 private:
  Session& session_;
  std::string name_;
};

class ChildMaker final : public ReplicaMaker {
 public:
  ChildMaker(Executor& executor, ProcessLauncher& launcher, WeightsFiles& files, ProcessEngineOptions options)
      : executor_(executor), launcher_(launcher), files_(files), options_(std::move(options)) {}

  Task<Result<std::shared_ptr<ReplicaEngine>>> make(WeightsPtr weights) override {
    return ProcessEngine::start(executor_, launcher_, files_, options_, std::move(weights));
  }
  std::string name() const override { return options_.name; }

 private:
  Executor& executor_;
  ProcessLauncher& launcher_;
  WeightsFiles& files_;
  ProcessEngineOptions options_;
};

}  // namespace

TrainingEngine::TrainingEngine(Session& session, const RunConfig& config, std::filesystem::path folder,
                               std::filesystem::path program)
    : session_(session), config_(config), folder_(std::move(folder)), program_(std::move(program)) {}

TrainingEngine::~TrainingEngine() = default;

Task<> TrainingEngine::open(const WeightsPtr& weights) {
  const std::filesystem::path files = folder_ / "engine_weights";
  WeightsFiles::remove_left(files);  // of a run that was killed, whatever engines this one has
  if (config_.engine.child_processes > 0) {
    files_ = std::make_unique<WeightsFiles>(files, session_.blocking());
    launcher_ = make_system_launcher(session_.executor());
  }
  if (config_.engine.single()) {
    native_ = session_.make_engine(weights);
  } else {
    co_await open_replicas(weights);
  }
  if (update_boundary_from_name(config_.rollout.update_boundary) == UpdateBoundary::kTurn) {
    turn_engine_ = std::make_unique<TurnBoundaryEngine>(native_ ? static_cast<Engine&>(*native_)
                                                                : static_cast<Engine&>(*routed_));
  }
}

Task<> TrainingEngine::open_replicas(const WeightsPtr& weights) {
  events_.emplace(folder_ / "engine_events.jsonl", true);
  routed_ = std::make_unique<RoutedEngine>(session_.executor(), make_makers(), options());
  co_await routed_->open(weights);
}

// Those in this process come first, so that of equals they are chosen.
std::vector<std::unique_ptr<ReplicaMaker>> TrainingEngine::make_makers() {
  const EngineConfig& engine = config_.engine;
  std::vector<std::unique_ptr<ReplicaMaker>> makers;
  for (int i = 0; i < engine.replicas - engine.child_processes; ++i) {
    makers.push_back(std::make_unique<NativeMaker>(session_, fmt::format("engine {}", i)));
  }
  // Whose file may be replaced while it runs.
  const std::string program = program_.empty() ? "/proc/self/exe" : program_.string();
  ProcessEngineOptions options{.command = {program, "engine", "serve"},
                               .start = {.config = session_.weights()->config(),
                                         .tokenizer = config_.model.path,
                                         .options = session_.engine_options()}};
  options.start.options.tokenizer = nullptr;
  options.start.threads = engine.child_threads > 0
                              ? engine.child_threads
                              : std::max(1, session_.compute().threads() / (engine.child_processes + 1));
  for (int i = engine.replicas - engine.child_processes; i < engine.replicas; ++i) {
    options.name = fmt::format("engine {}", i);
    makers.push_back(std::make_unique<ChildMaker>(session_.executor(), *launcher_, *files_, options));
  }
  return makers;
}

RoutedEngineOptions TrainingEngine::options() {
  const Duration prepare = from_seconds(config_.engine.prepare_timeout_seconds);
  const auto now = [this] { return to_seconds(session_.executor().now()); };
  return {
      .tokenizer = session_.tokenizer(),
      .start_limit = prepare,
      .prepare_limit = prepare,
      .commit_limit = from_seconds(config_.engine.commit_timeout_seconds),
      .on_publication =
          [this, now](const PublicationReport& report) {
            events_->write_line(Json::object({{"event", "publication"},
                                              {"time", now()},
                                              {"version", report.version},
                                              {"outcome", to_string(report.outcome)},
                                              {"replicas", report.replicas},
                                              {"seconds", to_seconds(report.duration)}})
                                    .dump());
          },
      .on_loss =
          [this, now](const std::string& replica, const std::string& reason) {
            events_->write_line(
                Json::object({{"event", "lost"}, {"time", now()}, {"engine", replica}, {"reason", reason}})
                    .dump());
          }};
}

Engine& TrainingEngine::engine() const {
  if (turn_engine_) return *turn_engine_;
  if (native_) return *native_;
  return *routed_;
}

Task<> TrainingEngine::close() {
  if (native_) co_await shielded(native_->close());
  if (routed_) co_await shielded(routed_->close());
}

}  // namespace stoker
