// Generation with the demo's model: tokens a second while decoding and while computing prompts, also
// as a share of the machine's peak of fused multiply-adds, and what a step costs beside its computation.
//
//   engine_bench [--json FILE]

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "async/compute_pool.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "engine/native_engine.h"
#include "generation.h"
#include "support.h"

namespace stoker {
namespace {

// Operations of the forward pass of one token that sees `context` positions; with its logits or without.
double operations(const ModelConfig& config, double context, bool logits) {
  const auto [body, head] = split_parameters(config);
  return 2 * (body + (logits ? head : 0) + 2 * context * config.query_size() * config.num_hidden_layers);
}

// The engine without a prefix cache, so that every repetition computes the same.
NativeEngineOptions options() { return {.max_batch = 256, .prefix_cache = false}; }

double seconds_of(RealExecutor& executor, Engine& engine, int count, int context, int new_tokens) {
  return best_seconds(2, [&] { run(executor, generate_all(engine, count, context, new_tokens)); });
}

void measure(FigureReport& report, int threads) {
  const ModelConfig config = demo_model();
  ComputePool pool(threads);
  RealExecutor executor;
  const auto weights = std::make_shared<const Weights>(initialize_weights(config, 1));
  NativeEngine engine(executor, pool, weights, options());
  const std::string suffix = fmt::format("_{}_threads", threads);
  const double peak = pool.run_blocking([](Parallel& parallel) { return peak_gflops(parallel); });
  report.add("peak_fma" + suffix, peak, "GFLOP/s");

  constexpr int kContext = 8, kNewTokens = 128;
  for (const int sequences : {1, 8, 64, 256}) {
    const double seconds = seconds_of(executor, engine, sequences, kContext, kNewTokens);
    const double rate = sequences * kNewTokens / seconds;
    const std::string name = fmt::format("decode_{}_sequences", sequences) + suffix;
    report.add(name, rate, "tokens/s");
    const double work = operations(config, kContext + kNewTokens / 2.0, true);
    report.add(name + "_of_peak", 100 * rate * work / 1e9 / peak, "%");
    report.add(name + "_step", 1e6 * seconds / kNewTokens, "us");
  }
  constexpr int kPrompts = 16, kPrompt = 400;
  const double rate = kPrompts * kPrompt / seconds_of(executor, engine, kPrompts, kPrompt, 1);
  report.add("prefill" + suffix, rate, "tokens/s");
  report.add("prefill_of_peak" + suffix, 100 * rate * operations(config, kPrompt / 2.0, false) / 1e9 / peak,
             "%");
}

void measure_all(FigureReport& report) {
  measure(report, 1);
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (threads > 1) measure(report, threads);
}

}  // namespace
}  // namespace stoker

int main(int argument_count, char** arguments) {
  return stoker::bench_main(argument_count, arguments, "engine_bench", stoker::measure_all);
}
