#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "async/event.h"
#include "engine/engine.h"

namespace stoker {

struct ProcessorSharingOptions {
  double tokens_per_second = 17066;        // of all sequences together
  double sequence_tokens_per_second = 60;  // most of one sequence
  double publish_seconds = 5;              // nothing is generated while weights are swapped
  // Of contexts that are computed anew after every swap: the new weights serve, and nothing is generated for
  // so much longer; 0: the cache is kept.
  double prefill_tokens_per_second = 0;
};

// An engine without a model, for simulations: n sequences decode at min(sequence limit, capacity / n) tokens
// per second each. A request generates exactly stop.max_tokens tokens; its sink gets the first of them, under
// the version of that moment. Weights are swapped between two tokens: sequences go on where they were. Time
// is the executor's; any number of requests, one loop.
class ProcessorSharingEngine final : public Engine {
 public:
  ProcessorSharingEngine(const ProcessorSharingOptions& options, Executor& executor);

  EngineCapabilities capabilities() const override { return {.per_token_versions = true}; }
  Task<Result<Completion>> generate(GenerateRequest request, TokenSink& sink) override;
  // A Failure: there is no model that could score.
  Task<Result<std::vector<float>>> score(std::vector<int32_t> tokens, float temperature) override;
  Task<Result<Done>> publish(WeightsPtr weights) override;
  int64_t version() const override { return version_; }
  // busy_seconds: what was generated over the capacity.
  EngineStatistics statistics() const override;

  // The contexts of all episodes in flight, those in tools included, are so many tokens longer or shorter.
  void change_contexts(double tokens) { contexts_ += tokens; }

  // Is called whenever other weights serve, before publish returns.
  void when_published(std::function<void()> function) { when_published_ = std::move(function); }

  // Tokens generated up to this moment, by all sequences.
  double generated_tokens();

 private:
  struct Job {
    Event done{"processor-sharing engine"};
  };
  using Jobs = std::multimap<double, Job*>;  // by the service at which each ends

  double rate() const;  // tokens per second of one sequence
  void advance();       // brings the service up to this moment
  void reschedule();
  void finish_due();
  void resume();
  void leave(Jobs::iterator job);

  ProcessorSharingOptions options_;
  Executor& executor_;
  int64_t version_ = 0;
  bool paused_ = false;
  double service_ = 0;  // tokens that a sequence present from the start would have
  double generated_ = 0;
  double contexts_ = 0;  // tokens
  std::function<void()> when_published_;
  TimePoint updated_{};
  Jobs jobs_;
  std::unique_ptr<Timer> next_end_, prefill_end_;
};

}  // namespace stoker
