#include "engine/turn_boundary_engine.h"

#include <utility>

namespace stoker {
namespace {

// Counts itself for as long as it lives, and sets the event, if any, when the count comes back to 0.
class Counted {
 public:
  explicit Counted(int64_t& count, Event* none = nullptr) : count_(count), none_(none) { ++count_; }
  ~Counted() {
    if (--count_ == 0 && none_ != nullptr) none_->set();
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  int64_t& count_;
  Event* none_;
};

}  // namespace

Task<Result<Completion>> TurnBoundaryEngine::generate(GenerateRequest request, TokenSink& sink) {
  while (publishing_ > 0) {
    const Counted waits(waiting_);
    open_.reset();
    co_await open_.wait();
  }
  const Counted runs(running_, &idle_);
  co_return co_await engine_.generate(std::move(request), sink);
}

Task<Result<Done>> TurnBoundaryEngine::publish(WeightsPtr weights) {
  const Counted publishes(publishing_, &open_);
  while (running_ > 0) {
    idle_.reset();
    co_await idle_.wait();
  }
  co_return co_await engine_.publish(std::move(weights));
}

EngineStatistics TurnBoundaryEngine::statistics() const {
  EngineStatistics statistics = engine_.statistics();
  statistics.waiting_requests += waiting_;
  return statistics;
}

}  // namespace stoker
