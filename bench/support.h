#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "async/parallel.h"
#include "base/figure_report.h"
#include "compute/batch.h"
#include "model/config.h"
#include "model/weights.h"

namespace stoker {

// What the benchmark programs share. Every time is the best of many repetitions: what the machine can do when
// nobody else uses it.

// Seconds of one call.
template <typename Call>
double seconds_of(Call call) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  call();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Seconds of the fastest of at least three calls after a first one, and of as many as fit into `budget`
// seconds.
template <typename Call>
double best_seconds(double budget, Call call) {
  using Clock = std::chrono::steady_clock;
  call();
  const Clock::time_point start = Clock::now();
  double best = 1e9;
  for (int calls = 0; calls < 3 || std::chrono::duration<double>(Clock::now() - start).count() < budget;
       ++calls) {
    best = std::min(best, seconds_of(call));
  }
  return best;
}

// GFLOP/s of independent fused multiply-adds on all threads.
double peak_gflops(Parallel& parallel);

// The demo's model, and Qwen3's form in 3.3 million parameters, which bench/peers trains beside others.
ModelConfig demo_model();
ModelConfig small_model();

// One operation count a parameter a token: body (all but embedding and head, which may be one) and head.
struct ParameterSplit {
  double body = 0;
  double head = 0;
};
ParameterSplit split_parameters(const ModelConfig& config);

// Rows of a training batch: which of their tokens are predicted.
struct TrainingRow {
  int tokens = 0;
  int first_target = 1;
  int targets = 0;
};
// `count` such rows at temperature 1, with ids below `vocabulary`.
Batch training_batch(int count, TrainingRow row, int32_t vocabulary);

// The least weights that an engine serves, for programs in which only their version counts.
WeightsPtr least_weights(int64_t version);

// The command line of a benchmark program: PROGRAM [--json FILE]. Runs `measure`, writes the report, and
// returns the exit status; what is thrown is one sentence on standard error.
int bench_main(int argument_count, char** arguments, const char* program,
               const std::function<void(FigureReport& report)>& measure);

// The same for PROGRAM [--only PREFIX] [--json FILE]; `measure` is told the prefix, empty without one.
int bench_main_of_groups(int argument_count, char** arguments, const std::string& program,
                         const std::function<void(FigureReport& report, const std::string& only)>& measure);

}  // namespace stoker
