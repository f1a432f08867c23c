#include "simulation/processor_sharing_engine.h"

#include <algorithm>
#include <cmath>

#include "async/sleep.h"

namespace stoker {

namespace {
// Times are whole nanoseconds: service within this of its end is there.
constexpr double kTokenTolerance = 1e-4;
}  // namespace

ProcessorSharingEngine::ProcessorSharingEngine(const ProcessorSharingOptions& options, Executor& executor)
    : options_(options), executor_(executor), updated_(executor.now()) {}

double ProcessorSharingEngine::rate() const {
  if (paused_ || jobs_.empty()) return 0;
  return std::min(options_.sequence_tokens_per_second,
                  options_.tokens_per_second / static_cast<double>(jobs_.size()));
}

void ProcessorSharingEngine::advance() {
  const TimePoint now = executor_.now();
  const double served = rate() * to_seconds(now - updated_);
  service_ += served;
  generated_ += served * static_cast<double>(jobs_.size());
  updated_ = now;
}

void ProcessorSharingEngine::reschedule() {
  next_end_.reset();
  const double tokens_per_second = rate();
  if (tokens_per_second == 0) return;
  const double seconds = std::max(0.0, jobs_.begin()->first - service_) / tokens_per_second;
  next_end_ =
      executor_.post_at(executor_.now() + Duration(std::llround(seconds * 1e9)), [this] { finish_due(); });
}

void ProcessorSharingEngine::finish_due() {
  advance();
  while (!jobs_.empty() && jobs_.begin()->first <= service_ + kTokenTolerance) {
    Job* job = jobs_.begin()->second;
    jobs_.erase(jobs_.begin());
    job->done.set();
  }
  reschedule();
}

void ProcessorSharingEngine::leave(Jobs::iterator job) {
  advance();
  jobs_.erase(job);
  reschedule();
}

Task<Result<Completion>> ProcessorSharingEngine::generate(GenerateRequest request, TokenSink& sink) {
  const int32_t tokens = request.stop.max_tokens;
  sink.accept({.id = 1, .log_probability = -1, .version = version_});
  Job job;
  advance();
  const auto place = jobs_.emplace(service_ + tokens, &job);
  reschedule();
  try {
    co_await job.done.wait();
  } catch (...) {
    if (!job.done.is_set()) leave(place);
    throw;
  }
  co_return Completion{.stop_reason = StopReason::kLength, .sampled_tokens = tokens};
}

Task<Result<std::vector<float>>> ProcessorSharingEngine::score(std::vector<int32_t>, float) {
  co_return Failure{FailureClass::kInfrastructure, "no_model",
                    "A simulated engine has no model to score with."};
}

Task<Result<Done>> ProcessorSharingEngine::publish(WeightsPtr weights) {
  advance();
  paused_ = true;
  prefill_end_.reset();  // what the weights before have not recomputed, these do
  reschedule();
  double prefill_seconds = 0;
  if (options_.prefill_tokens_per_second > 0)
    prefill_seconds = contexts_ / options_.prefill_tokens_per_second;
  co_await sleep_for(from_seconds(options_.publish_seconds));
  version_ = weights->version();
  if (prefill_seconds > 0) {
    prefill_end_ = executor_.post_at(executor_.now() + from_seconds(prefill_seconds), [this] { resume(); });
  } else {
    resume();
  }
  if (when_published_) when_published_();
  co_return Done{};
}

void ProcessorSharingEngine::resume() {
  advance();
  paused_ = false;
  reschedule();
}

EngineStatistics ProcessorSharingEngine::statistics() const {
  return {.running_requests = static_cast<int64_t>(jobs_.size()),
          .sampled_tokens = static_cast<int64_t>(generated_),
          .busy_seconds = generated_ / options_.tokens_per_second};
}

double ProcessorSharingEngine::generated_tokens() {
  advance();
  return generated_;
}

}  // namespace stoker
