#pragma once

#include <cstdint>

#include "async/event.h"
#include "engine/engine.h"

namespace stoker {

// Another engine whose weights change only between two turns: publish waits until no request is in flight,
// and requests that come meanwhile wait until the new version serves. So every turn is sampled by one version
// and no token is `mixed`; an update takes as long as the longest turn in flight still has to go, whatever
// the tools do. The time a request waits counts as its place in the queue, and
// against a deadline that its caller has set.
//
// Cancelling a publication that waits lets the requests go on under the old version. Loop thread only.
class TurnBoundaryEngine final : public Engine {
 public:
  // `engine` must outlive the object; publishing around the object breaks the promise.
  explicit TurnBoundaryEngine(Engine& engine) : engine_(engine) {}

  EngineCapabilities capabilities() const override { return engine_.capabilities(); }
  Task<Result<Completion>> generate(GenerateRequest request, TokenSink& sink) override;
  Task<Result<std::vector<float>>> score(std::vector<int32_t> tokens, float temperature) override {
    return engine_.score(std::move(tokens), temperature);
  }
  Task<Result<Done>> publish(WeightsPtr weights) override;
  int64_t version() const override { return engine_.version(); }
  // Those that wait for a publication are among the waiting ones.
  EngineStatistics statistics() const override;

 private:
  Engine& engine_;
  int64_t running_ = 0;
  int64_t waiting_ = 0;
  int64_t publishing_ = 0;  // publications that wait or swap
  Event idle_{"turns in flight"};
  Event open_{"publication"};
};

}  // namespace stoker
