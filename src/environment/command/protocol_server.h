#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/cancellation.h"
#include "async/pool.h"
#include "async/scope.h"
#include "async/semaphore.h"
#include "base/json.h"
#include "environment/command/protocol.h"
#include "environment/registry.h"

namespace stoker {

// The other side of docs/protocol.md: serves the environments of one kind, under its name, and its rewards.
// Requests of one episode are worked off in their order, others side by side. Without snapshots. Loop thread
// only.
//
//   ProtocolServer server(executor, "arithmetic", *kind, pool, [](const std::string& line) { print(line); });
//   server.take(line);            // for each line of input
//   co_await server.finish();     // closes the episodes that are open
class ProtocolServer {
 public:
  // References must outlive the object. `write` is called with each answer, without the line's end.
  ProtocolServer(Executor& executor, std::string name, const EnvironmentKind& kind, Pool& blocking,
                 std::function<void(const std::string& line)> write);
  ~ProtocolServer();

  void take(std::string_view line);
  Task<> finish();

  int64_t open_episodes() const { return static_cast<int64_t>(episodes_.size()); }

 private:
  struct Episode;
  struct Request {
    int64_t id = 0;
    std::string method;
    Json params;
    std::shared_ptr<Episode> episode;  // null: of none that is open
  };

  Task<> work(Request request, CancellationToken cancellation);
  Task<Result<Json>> answer(const Request& request);
  Task<Result<Json>> reset(const Request& request);
  Task<Result<Json>> step(const Request& request);
  Task<Result<Json>> call(const Request& request);
  Task<Result<Json>> score(const Request& request);
  Task<Result<Json>> close(const Request& request);
  Task<Result<Json>> tools();
  Result<Json> hello(const Json& params);
  void refuse(std::optional<int64_t> id, const char* reason, const std::string& message);
  void reply(int64_t id, const Result<Json>& result);
  std::shared_ptr<Episode> episode_of(const Request& request);

  std::string name_;
  const EnvironmentKind& kind_;
  Pool& blocking_;
  std::function<void(const std::string&)> write_;
  std::vector<std::unique_ptr<Reward>> rewards_;
  std::map<std::string, std::shared_ptr<Episode>> episodes_;
  std::map<int64_t, std::unique_ptr<CancellationSource>> running_;
  Scope scope_;
  bool greeted_ = false;
};

}  // namespace stoker
