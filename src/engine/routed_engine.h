#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/executor.h"
#include "async/scope.h"
#include "async/semaphore.h"
#include "engine/engine.h"
#include "engine/publication.h"
#include "engine/replica_engine.h"
#include "engine/route_table.h"
#include "text/tokenizer.h"

namespace stoker {

// How one publication ended, for logs and metrics.
struct PublicationReport {
  int64_t version = 0;
  PublicationOutcome outcome = PublicationOutcome::kCommitted;
  int replicas = 0;  // that took part
  Duration duration{};
};

struct RoutedEngineOptions {
  TokenizerPtr tokenizer;  // that of the replicas: for stop strings and Completion::text; may be null
  Duration start_limit = std::chrono::seconds(600);    // of a replica, from nothing to serving
  Duration prepare_limit = std::chrono::seconds(600);  // of a publication, for each replica
  Duration commit_limit = std::chrono::seconds(60);    // likewise
  // A replica that is lost so often in a row, without having ended a request between, is given up.
  int most_losses = 8;
  // Both may be empty. A loss names the replica and says why, as a clause or a sentence; the replica is
  // closed by then. What they throw ends the run: it comes out of publish() and of every request that begins
  // or waits.
  std::function<void(const PublicationReport&)> on_publication;
  std::function<void(const std::string& replica, const std::string& reason)> on_loss;
};

// Several engines as one. A request goes to the replica that has its prefix or is least loaded (RouteTable).
// One that is lost in the middle costs nothing: its requests go on elsewhere from the tokens that were
// accepted, which are the same tokens on the same weights, since draws are keyed by position; and the replica
// is replaced, and brought to the current version before it takes requests.
//
// publish() is a Publication over the replicas that serve, each step with its limit. When it returns, every
// replica that takes requests serves the new version. One that was left out takes none until it has caught
// up; one in doubt is ended and replaced. An aborted publication, where every replica was lost or late, is
// tried again on their replacements; where one refused, the refusal is publish()'s failure. What the machine
// refused, a file for engines in other processes or time after time an engine, throws Error(kResource).
//
//   RoutedEngine engine(executor, std::move(makers), options);
//   co_await engine.open(weights);
//   ... as any Engine ...
//   co_await engine.close();
//
// Throws Error(kResource) from every call once all replicas are given up. A request with a token mask that no
// replica can take any more is the failure infrastructure.unsupported. Loop thread only.
class RoutedEngine final : public Engine {
 public:
  // At least one maker; `executor` must outlive the object.
  RoutedEngine(Executor& executor, std::vector<std::unique_ptr<ReplicaMaker>> makers,
               RoutedEngineOptions options);
  ~RoutedEngine() override;

  // Starts all replicas and waits until they serve `weights`. Error(kResource) names the first that cannot be
  // made; then, too, close() must follow.
  Task<> open(WeightsPtr weights);

  // What all replicas have; after open().
  EngineCapabilities capabilities() const override { return capabilities_; }
  Task<Result<Completion>> generate(GenerateRequest request, TokenSink& sink) override;
  Task<Result<std::vector<float>>> score(std::vector<int32_t> tokens, float temperature) override;
  Task<Result<Done>> publish(WeightsPtr weights) override;
  int64_t version() const override { return version_; }
  // Sums over the replicas, the lost ones' counters included; busy_seconds is the mean over this process,
  // whose replicas compute in turn, and each other one, so that it is at most the time that passed.
  EngineStatistics statistics() const override;

  // Ends the replicas; requests in flight fail with infrastructure.shut_down.
  Task<> close();

  // For reports: which replicas take requests, and what version each holds (-1: it is being replaced).
  struct ReplicaState {
    std::string name;
    bool serving = false;
    int64_t version = -1;
    int64_t requests = 0;
  };
  std::vector<ReplicaState> replicas() const;

 private:
  struct Slot;
  class Visit;
  struct Round;

  Task<> open_slot(Slot& slot);
  Task<> keep(Slot& slot);
  Task<> live(Slot& slot);
  Task<> replace(Slot& slot);
  Task<> bring_up(Slot& slot);
  Task<> let_go(Slot& slot);
  void take_in(Slot& slot, std::shared_ptr<ReplicaEngine> engine);
  void set_aside(Slot& slot);
  void failed(Slot& slot, const std::string& reason);
  Task<Result<Slot*>> slot_for(const GenerateRequest& request);
  bool some_may_take_masks() const;
  Slot* choose(const StreamKey& stream, bool masked);
  Task<> someone_serves();
  Task<PublicationOutcome> publish_round(Round& round);
  Task<> prepare_member(Round& round, int member);
  Task<> commit_member(Round& round, int member);
  void finish_round(Round& round);

  Executor& executor_;
  RoutedEngineOptions options_;
  std::vector<std::unique_ptr<Slot>> slots_;
  RouteTable routes_;
  EngineCapabilities capabilities_;
  WeightsPtr target_;    // what every replica is brought to
  int64_t version_ = 0;  // what all that take requests have reached
  Scope scope_;          // one keeper a slot
  Semaphore publishing_{1, "publication to replicas"};
  Event changed_{"a replica that serves"};
  bool closing_ = false;
  std::exception_ptr broken_;  // what ended a keeper
  EngineStatistics counted_;   // publications, losses, requests that went on elsewhere
};

}  // namespace stoker
