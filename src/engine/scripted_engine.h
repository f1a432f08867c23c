#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace stoker {

// What a ScriptedEngine answers to one request.
struct ScriptedAnswer {
  std::vector<int32_t> tokens;           // a stop token of the request ends them early, as does max_tokens
  std::vector<float> log_probabilities;  // [tokens], or empty: every token has kScriptedLogProbability
  std::string text;                      // Completion::text
  StopReason stop_reason =
      StopReason::kStopToken;      // when neither a stop token nor max_tokens ends the answer
  Duration latency{0};             // before the first token
  Duration token_interval{0};      // between two tokens
  std::optional<Failure> failure;  // after the tokens: what the request fails with
};

constexpr float kScriptedLogProbability = -1.0f;

// The fake behind the Engine interface: answers by a function, in virtual or real time. For tests and for
// measuring orchestration; it computes nothing and is cheap at ten thousand concurrent requests. A token's
// version is the one that is published when the token is accepted; it is `mixed` when an older one has served
// the same request before.
//
//   ScriptedEngine engine([](const GenerateRequest& request) {
//     return ScriptedAnswer{.tokens = {7, 8, 2}, .latency = 5ms};
//   });
class ScriptedEngine final : public Engine {
 public:
  // Called once a request, on the loop thread. What it throws is thrown by generate.
  using Script = std::function<ScriptedAnswer(const GenerateRequest& request)>;
  // Answers score(); called on the loop thread.
  using Scorer = std::function<std::vector<float>(const std::vector<int32_t>& tokens, float temperature)>;

  struct Options {
    EngineCapabilities capabilities = {.keyed_random_streams = true, .per_token_versions = true};
    int64_t version = 0;
    Duration publish_latency{0};
    Scorer scorer;  // empty: score() is the failure infrastructure.unsupported
  };

  explicit ScriptedEngine(Script script) : ScriptedEngine(std::move(script), Options()) {}
  ScriptedEngine(Script script, Options options);

  EngineCapabilities capabilities() const override;
  Task<Result<Completion>> generate(GenerateRequest request, TokenSink& sink) override;
  Task<Result<std::vector<float>>> score(std::vector<int32_t> tokens, float temperature) override;
  Task<Result<Done>> publish(WeightsPtr weights) override;
  int64_t version() const override { return version_; }
  EngineStatistics statistics() const override { return statistics_; }

 private:
  Script script_;
  Options options_;
  int64_t version_;
  EngineStatistics statistics_;
};

}  // namespace stoker
