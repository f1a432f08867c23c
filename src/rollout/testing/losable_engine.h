#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "async/cancellation.h"
#include "async/executor.h"
#include "async/sleep.h"
#include "engine/replica_engine.h"
#include "engine/scripted_engine.h"

namespace stoker::testing {

// A replica in virtual time that is lost at the end of its life, whatever it does then: in the middle of a
// request, of preparing new weights or of swapping them in. Requests that come from another replica go on
// behind the tokens that were accepted there.
class LosableEngine final : public ReplicaEngine {
 public:
  static constexpr const char* kLost = "replica_lost";  // the reason of its failures

  LosableEngine(Executor& executor, const ScriptedEngine::Script& script, int64_t version, Duration life,
                Duration publish_time);

  EngineCapabilities capabilities() const override { return engine_.capabilities(); }
  Task<Result<Completion>> generate(GenerateRequest request, TokenSink& sink) override;
  Task<Result<std::vector<float>>> score(std::vector<int32_t> tokens, float temperature) override;
  Task<Result<Done>> publish(WeightsPtr weights) override;
  int64_t version() const override { return engine_.version(); }
  EngineStatistics statistics() const override { return engine_.statistics(); }

  Task<Result<Done>> prepare(WeightsPtr weights) override;
  Task<Result<Done>> commit(int64_t version) override;
  bool lost() const override { return !reason_.empty(); }
  void when_lost(std::function<void()> function) override { when_lost_ = std::move(function); }
  void abandon(const std::string& reason) override;
  std::string lost_reason() const override { return reason_; }
  bool computes_here() const override { return false; }
  bool takes_masks() const override { return false; }
  Task<> close() override;

 private:
  // Until it is done or the replica is lost.
  template <typename T>
  Task<Result<T>> while_alive(Task<Result<T>> work) {
    const CancellationToken caller = co_await current_cancellation();
    if (!lost()) {
      try {
        co_return co_await with_cancellation(end_.token(), std::move(work));
      } catch (const Cancelled&) {
        caller.throw_if_requested();
      }
    }
    co_return Failure{FailureClass::kInfrastructure, kLost, reason_};
  }

  ScriptedEngine engine_;
  Duration publish_time_;
  WeightsPtr prepared_;
  std::string reason_;
  CancellationSource end_;
  std::function<void()> when_lost_;
  std::unique_ptr<Timer> life_;
};

}  // namespace stoker::testing
