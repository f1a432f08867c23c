#include "engine/scripted_engine.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "async/sleep.h"
#include "engine/request_check.h"

namespace stoker {
namespace {

// Counts a request as running for as long as it lives, whichever way its task ends.
class RunningCount {
 public:
  explicit RunningCount(int64_t& count) : count_(count) { ++count_; }
  ~RunningCount() { --count_; }
  RunningCount(const RunningCount&) = delete;
  RunningCount& operator=(const RunningCount&) = delete;

 private:
  int64_t& count_;
};

}  // namespace

ScriptedEngine::ScriptedEngine(Script script, Options options)
    : script_(std::move(script)), options_(std::move(options)), version_(options_.version) {}

EngineCapabilities ScriptedEngine::capabilities() const {
  EngineCapabilities capabilities = options_.capabilities;
  capabilities.scoring = options_.scorer != nullptr;
  return capabilities;
}

Task<Result<Completion>> ScriptedEngine::generate(GenerateRequest request, TokenSink& sink) {
  if (std::optional<Failure> failure = check_request(request)) co_return *std::move(failure);
  RunningCount running(statistics_.running_requests);
  sink.started();
  const ScriptedAnswer answer = script_(request);
  if (answer.latency > Duration::zero()) co_await sleep_for(answer.latency);

  Completion completion;
  completion.stop_reason = answer.stop_reason;
  completion.text = answer.text;
  const int64_t first_version = version_;
  for (size_t i = 0; i < answer.tokens.size(); ++i) {
    if (i > 0 && answer.token_interval > Duration::zero()) co_await sleep_for(answer.token_interval);
    const int32_t id = answer.tokens[i];
    sink.accept(SampledToken{.id = id,
                             .log_probability = answer.log_probabilities.empty()
                                                    ? kScriptedLogProbability
                                                    : answer.log_probabilities.at(i),
                             .version = version_,
                             .mixed = version_ != first_version});
    ++statistics_.sampled_tokens;
    ++completion.sampled_tokens;
    if (std::find(request.stop.tokens.begin(), request.stop.tokens.end(), id) != request.stop.tokens.end()) {
      completion.stop_reason = StopReason::kStopToken;
      break;
    }
    if (completion.sampled_tokens == request.stop.max_tokens) {
      completion.stop_reason = StopReason::kLength;
      break;
    }
  }
  if (answer.failure) co_return *answer.failure;
  co_return completion;
}

Task<Result<std::vector<float>>> ScriptedEngine::score(std::vector<int32_t> tokens, float temperature) {
  if (!options_.scorer) {
    co_return Failure{FailureClass::kInfrastructure, "unsupported",
                      "This scripted engine was made without a scorer; give it one in its options."};
  }
  co_return options_.scorer(tokens, temperature);
}

Task<Result<Done>> ScriptedEngine::publish(WeightsPtr weights) {
  if (weights->version() < version_) co_return stale_version(weights->version(), version_);
  if (options_.publish_latency > Duration::zero()) co_await sleep_for(options_.publish_latency);
  version_ = std::max(version_, weights->version());
  co_return Done{};
}

}  // namespace stoker
