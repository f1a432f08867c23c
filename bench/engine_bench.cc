// Generation with the demonstration's model: tokens a second while decoding and while computing prompts, also
// as a share of the machine's peak of fused multiply-adds, and what a step costs beside its computation.
//
//   engine_bench [--json FILE]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "async/compute_pool.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "async/scope.h"
#include "base/error.h"
#include "base/figure_report.h"
#include "compute/cpu/kernels.h"
#include "engine/native_engine.h"

namespace stoker {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// GFLOP/s of independent fused multiply-adds on all threads of the pool: the best of many short runs.
double peak_gflops(ComputePool& pool) {
  return pool.run_blocking([](Parallel& parallel) {
    constexpr int64_t kIterations = 200'000;
    std::vector<float> sinks(static_cast<size_t>(parallel.threads()) * 16);
    double best = 0;
    for (int repeat = 0; repeat < 40; ++repeat) {
      std::vector<int64_t> operations(static_cast<size_t>(parallel.threads()));
      const Clock::time_point start = Clock::now();
      parallel.for_each(parallel.threads(), [&](int thread) {
        const auto index = static_cast<size_t>(thread);
        operations[index] = cpu::kernels().peak_loop(kIterations, &sinks[index * 16]);
      });
      const double seconds = seconds_since(start);
      double total = 0;
      for (int64_t count : operations) total += static_cast<double>(count);
      best = std::max(best, total / seconds / 1e9);
    }
    return best;
  });
}

ModelConfig demonstration_model() {
  ModelConfig config;
  config.vocab_size = 292;
  config.hidden_size = 128;
  config.num_hidden_layers = 4;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 32;
  config.intermediate_size = 256;
  config.max_position_embeddings = 512;
  config.qk_norm = true;
  return config;
}

// Operations of the forward pass of one token that sees `context` positions; with its logits or without.
double operations(const ModelConfig& config, double context, bool logits) {
  const double head = static_cast<double>(config.vocab_size) * config.hidden_size;
  const double body = static_cast<double>(config.parameter_count()) - 2 * head;
  return 2 * (body + (logits ? head : 0) + 2 * context * config.query_size() * config.num_hidden_layers);
}

class Ignore final : public TokenSink {
 public:
  void accept(const SampledToken&) override {}
};

Task<> generate_one(Engine& engine, GenerateRequest request, TokenSink& sink) {
  const Result<Completion> completion = co_await engine.generate(std::move(request), sink);
  if (!completion) throw internal_error(completion.failure().message);
}

Task<> generate_all(Engine& engine, int count, int context, int new_tokens) {
  Ignore sink;
  Scope scope(co_await current_executor(), co_await current_cancellation());
  for (int s = 0; s < count; ++s) {
    GenerateRequest request{.stop = {.max_tokens = new_tokens},
                            .stream = {.sample = static_cast<uint32_t>(s)}};
    for (int i = 0; i < context; ++i) request.tokens.push_back((s * 37 + i * 11) % 290);
    scope.spawn(generate_one(engine, std::move(request), sink));
  }
  co_await scope.join();
}

// The engine without a prefix cache, so that every repetition computes the same.
NativeEngineOptions options() { return {.max_batch = 256, .prefix_cache = false}; }

// Seconds of the fastest repetition within about two seconds.
double best_seconds(RealExecutor& executor, Engine& engine, int count, int context, int new_tokens) {
  double best = 1e9;
  const Clock::time_point start = Clock::now();
  for (int repeat = 0; repeat < 3 || seconds_since(start) < 2; ++repeat) {
    const Clock::time_point begin = Clock::now();
    run(executor, generate_all(engine, count, context, new_tokens));
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

void measure(FigureReport& report, int threads) {
  const ModelConfig config = demonstration_model();
  ComputePool pool(threads);
  RealExecutor executor;
  const auto weights = std::make_shared<const Weights>(initialize_weights(config, 1));
  NativeEngine engine(executor, pool, weights, options());
  const std::string suffix = fmt::format("_{}_threads", threads);
  const double peak = peak_gflops(pool);
  report.add("peak_fma" + suffix, peak, "GFLOP/s");

  constexpr int kContext = 8, kNewTokens = 128;
  for (const int sequences : {1, 8, 64, 256}) {
    const double seconds = best_seconds(executor, engine, sequences, kContext, kNewTokens);
    const double rate = sequences * kNewTokens / seconds;
    const std::string name = fmt::format("decode_{}_sequences", sequences) + suffix;
    report.add(name, rate, "tokens/s");
    const double work = operations(config, kContext + kNewTokens / 2.0, true);
    report.add(name + "_of_peak", 100 * rate * work / 1e9 / peak, "%");
    report.add(name + "_step", 1e6 * seconds / kNewTokens, "us");
  }
  constexpr int kPrompts = 16, kPrompt = 400;
  const double rate = kPrompts * kPrompt / best_seconds(executor, engine, kPrompts, kPrompt, 1);
  report.add("prefill" + suffix, rate, "tokens/s");
  report.add("prefill_of_peak" + suffix, 100 * rate * operations(config, kPrompt / 2.0, false) / 1e9 / peak,
             "%");
}

int main_of(int argc, char** argv) {
  const char* json = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else {
      fmt::print(stderr, "Usage: engine_bench [--json FILE]\n");
      return 2;
    }
  }
  FigureReport report;
  measure(report, 1);
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (threads > 1) measure(report, threads);
  if (json != nullptr) report.write(json);
  return 0;
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) {
  try {
    return stoker::main_of(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "engine_bench: {}\n", error.what());
    return 1;
  }
}
