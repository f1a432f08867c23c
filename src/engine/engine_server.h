#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "async/cancellation_token.h"
#include "async/executor.h"
#include "async/pool.h"
#include "async/scope.h"
#include "base/json.h"
#include "engine/engine_protocol.h"
#include "engine/replica_engine.h"

namespace stoker {

// The child's end of engine_protocol.h: serves an engine to a parent. Loop thread only.
//
//   EngineServer server(executor, blocking, make_engine, write_line);
//   while (std::optional<std::string> line = read_line()) server.take(*line);
//   co_await server.finish();
class EngineServer {
 public:
  // Makes the engine when the parent says start; throws Error for what the parent is to throw.
  using MakeEngine =
      std::function<std::shared_ptr<ReplicaEngine>(const EngineStart& start, const WeightsPtr& weights)>;
  using Write = std::function<void(const std::string& line)>;

  // `blocking` reads weights. All must outlive the object.
  EngineServer(Executor& executor, Pool& blocking, MakeEngine make_engine, Write write);
  ~EngineServer();

  // A line of the parent. Throws Error(kInput) for one that is not of the protocol.
  void take(std::string_view line);

  // Cancels what runs and closes the engine; the last call, and needed before the object dies.
  Task<> finish();

 private:
  class Sink;

  Task<> answer(int64_t id, std::string what, Json command);
  Task<Json> carry_out(int64_t id, std::string what, Json command);
  Task<Json> start(Json command);
  ReplicaEngine& engine() const;
  void post_flush();
  void flush();

  Executor& executor_;
  Pool& blocking_;
  MakeEngine make_engine_;
  Write write_;
  std::shared_ptr<ReplicaEngine> engine_;  // null: not started
  ModelConfig config_;
  Scope scope_;
  std::map<int64_t, CancellationSource> running_;  // by id
  // Of this turn of the loop, not written yet: the elements of both lists.
  std::string started_, tokens_;
  bool flush_posted_ = false;
  // Posted work asks it whether this still lives.
  std::shared_ptr<EngineServer*> self_ = std::make_shared<EngineServer*>(this);
};

}  // namespace stoker
