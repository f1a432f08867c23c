#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "base/file.h"
#include "cli/session.h"
#include "engine/engine.h"
#include "engine/routed_engine.h"
#include "engine/turn_boundary_engine.h"
#include "engine/weights_file.h"
#include "io/process.h"

namespace stoker {

// The engine of a training run as [engine] and rollout.update_boundary say: one in this process, or several
// behind a RoutedEngine, some of them in processes of their own.
//
//   TrainingEngine engine(session, config, run_folder, program);
//   co_await engine.open(weights);
//   ... engine.engine() ...
//   co_await engine.close();
class TrainingEngine {
 public:
  // `folder` is the run's: with several engines, weights on their way and engine_events.jsonl go there, a
  // line a publication and a line a lost engine. `program`: whose verb `engine serve` is run; empty: this
  // one. References must outlive the object.
  TrainingEngine(Session& session, const RunConfig& config, std::filesystem::path folder,
                 std::filesystem::path program);
  ~TrainingEngine();

  // Serves `weights` when it returns. Throws Error for an engine that cannot be made, and Cancelled; close()
  // must follow in any case.
  Task<> open(const WeightsPtr& weights);
  // After open().
  Engine& engine() const;
  // Safe after a failed open, and without one.
  Task<> close();

 private:
  Task<> open_replicas(const WeightsPtr& weights);
  std::vector<std::unique_ptr<ReplicaMaker>> make_makers();
  RoutedEngineOptions options();

  Session& session_;
  const RunConfig& config_;
  std::filesystem::path folder_;
  std::filesystem::path program_;
  std::optional<LineWriter> events_;
  std::unique_ptr<WeightsFiles> files_;        // null: no engine in another process
  std::unique_ptr<ProcessLauncher> launcher_;  // likewise
  std::unique_ptr<NativeEngine> native_;       // of the two one is null
  std::unique_ptr<RoutedEngine> routed_;
  std::unique_ptr<TurnBoundaryEngine> turn_engine_;  // around it, if the boundary is the turn
};

}  // namespace stoker
