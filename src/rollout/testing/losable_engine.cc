#include "rollout/testing/losable_engine.h"

#include <algorithm>
#include <vector>

namespace stoker::testing {
namespace {

ScriptedEngine::Script behind_accepted_tokens(const ScriptedEngine::Script& script) {
  return [script](const GenerateRequest& request) {
    ScriptedAnswer answer = script(request);
    const size_t accepted = std::min<size_t>(request.first_position, answer.tokens.size());
    answer.tokens.erase(answer.tokens.begin(), answer.tokens.begin() + static_cast<int64_t>(accepted));
    return answer;
  };
}

Task<Result<Done>> take_time(Duration time) {
  co_await sleep_for(time);
  co_return Done();
}

}  // namespace

LosableEngine::LosableEngine(Executor& executor, const ScriptedEngine::Script& script, int64_t version,
                             Duration life, Duration publish_time)
    : engine_(behind_accepted_tokens(script), {.version = version}),
      publish_time_(publish_time),
      life_(executor.post_at(executor.now() + life, [this] { abandon("its life is over"); })) {}

Task<Result<Completion>> LosableEngine::generate(GenerateRequest request, TokenSink& sink) {
  co_return co_await while_alive(engine_.generate(std::move(request), sink));
}

Task<Result<std::vector<float>>> LosableEngine::score(std::vector<int32_t> tokens, float temperature) {
  co_return co_await while_alive(engine_.score(std::move(tokens), temperature));
}

Task<Result<Done>> LosableEngine::publish(WeightsPtr weights) {
  const Result<Done> ready = co_await prepare(weights);
  if (!ready) co_return ready;
  co_return co_await commit(weights->version());
}

Task<Result<Done>> LosableEngine::prepare(WeightsPtr weights) {
  Result<Done> done = co_await while_alive(take_time(publish_time_));
  if (done) prepared_ = std::move(weights);
  co_return done;
}

Task<Result<Done>> LosableEngine::commit(int64_t version) {
  Result<Done> done = co_await while_alive(take_time(publish_time_ / 10));
  if (done && prepared_ && prepared_->version() == version) done = co_await engine_.publish(prepared_);
  co_return done;
}

void LosableEngine::abandon(const std::string& reason) {
  if (lost()) return;
  reason_ = reason;
  end_.request(CancelReason::kShutdown);
  if (when_lost_) std::exchange(when_lost_, nullptr)();
}

Task<> LosableEngine::close() {
  abandon("it was closed");
  co_return;
}

}  // namespace stoker::testing
