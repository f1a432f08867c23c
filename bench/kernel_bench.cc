// The kernels against the machine: the peak of fused multiply-adds, the matrix products of the
// demonstration's model as a share of it, and whole training steps through the Learner.
//
//   kernel_bench [--json FILE]
//
// Every time is the best of many repetitions, which is what the machine can do when nobody else uses it.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "async/compute_pool.h"
#include "async/parallel.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "compute/cpu/cpu_learner.h"
#include "compute/cpu/float_buffer.h"
#include "compute/cpu/forward_pass.h"
#include "compute/cpu/kernels.h"
#include "model/weights.h"

namespace stoker::cpu {
namespace {

struct Figure {
  std::string name;
  double value;
  std::string unit;
};

class Report {
 public:
  void add(const std::string& name, double value, const std::string& unit) {
    fmt::print("{:<52} {:>12.2f} {}\n", name, value, unit);
    std::fflush(stdout);
    figures_.push_back({name, value, unit});
  }
  // False when the file cannot be written.
  bool write(const char* path) const {
    std::FILE* file = std::fopen(path, "w");
    if (file == nullptr) return false;
    fmt::print(file, "[");
    for (size_t index = 0; index < figures_.size(); ++index) {
      const Figure& figure = figures_[index];
      fmt::print(file, "{}\n  {{\"name\": \"{}\", \"value\": {}, \"unit\": \"{}\"}}", index > 0 ? "," : "",
                 figure.name, figure.value, figure.unit);
    }
    fmt::print(file, "\n]\n");
    return std::fclose(file) == 0;
  }

 private:
  std::vector<Figure> figures_;
};

// Seconds of the fastest of at least five calls, and as many as fit into `budget` seconds.
template <typename Call>
double best_seconds(double budget, Call call) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  double best = 1e9;
  call();
  for (int calls = 0; calls < 5 || std::chrono::duration<double>(Clock::now() - start).count() < budget;
       ++calls) {
    const Clock::time_point begin = Clock::now();
    call();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

// GFLOP/s of independent fused multiply-adds on all threads.
double peak(Parallel& parallel) {
  constexpr int64_t kIterations = 200'000;
  int64_t operations = 0;
  std::vector<float> sinks(static_cast<size_t>(parallel.threads()) * 16);
  const double seconds = best_seconds(0.6, [&] {
    parallel.for_each(parallel.threads(), [&](int thread) {
      const int64_t done = kernels().peak_loop(kIterations, &sinks[static_cast<size_t>(thread) * 16]);
      if (thread == 0) operations = done;
    });
  });
  return static_cast<double>(operations) * parallel.threads() / seconds / 1e9;
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

// C[m, n] = A[m, k] W[n, k]^T with rows split over the threads, as the decoder's stages do.
double product(Parallel& parallel, int m, int n, int k) {
  FloatBuffer a(int64_t{m} * k), b(int64_t{n} * k), c(int64_t{m} * padded(n));
  std::fill_n(a.data(), int64_t{m} * k, 0.5f);
  std::fill_n(b.data(), int64_t{n} * k, 0.25f);
  const int threads = m > 1 ? parallel.threads() : 1;
  constexpr int kRepeats = 20;
  const double seconds = best_seconds(0.25, [&] {
    parallel.for_each(threads, [&](int t) {
      const Range rows = part_of(m, threads, t, 6);
      for (int i = 0; i < kRepeats; ++i) {
        kernels().matmul(rows.end - rows.begin, k, n, {a.data() + int64_t{rows.begin} * k, k, 1},
                         {b.data(), int64_t{k} * kLanes, kLanes}, c.data() + rows.begin * padded(n),
                         padded(n), Write::kStore);
      }
    });
  });
  return 2.0 * m * n * k * kRepeats / seconds / 1e9;
}

// `count` sequences of 67 tokens of which the second half is predicted: episodes of the demonstration.
Batch episodes(int count, int32_t vocabulary) {
  Batch batch;
  for (int s = 0; s < count; ++s) {
    Segment segment;
    for (int i = 0; i < 67; ++i) segment.tokens.push_back((s * 31 + i * 17) % vocabulary);
    for (int i = 34; i < 66; ++i) {
      batch.segment.push_back(s);
      batch.offset.push_back(i);
      batch.target.push_back(segment.tokens[static_cast<size_t>(i) + 1]);
      batch.temperature.push_back(1.0f);
    }
    batch.segments.push_back(std::move(segment));
  }
  return batch;
}

Task<> train_once(CpuLearner& learner, const Batch& batch) {
  ForwardResult result = co_await learner.forward(batch);
  Coefficients coefficients;
  coefficients.log_probability.assign(result.scores.log_probability.size(),
                                      -1.0f / static_cast<float>(result.scores.log_probability.size()));
  co_await learner.backward(std::move(result.tape), coefficients);
  co_await learner.step(1e-3);
}

// Operations of forward and backward: 6 for each parameter and token it meets, and the attention's two
// products.
double training_operations(const ModelConfig& config, const Batch& batch) {
  const double head = static_cast<double>(config.vocab_size) * config.hidden_size;
  const double body = static_cast<double>(config.parameter_count()) - 2 * head;
  double pairs = 0;
  for (const Segment& segment : batch.segments) {
    pairs += 0.5 * static_cast<double>(segment.tokens.size() * (segment.tokens.size() + 1));
  }
  return 6 * (body * static_cast<double>(batch.token_count()) +
              head * static_cast<double>(batch.prediction_count()) +
              2 * pairs * config.query_size() * config.num_hidden_layers);
}

void bench_training(Report& report, int threads, double peak_gflops, int sequences) {
  const ModelConfig config = demonstration_model();
  const Batch batch = episodes(sequences, config.vocab_size);
  ComputePool pool(threads);
  RealExecutor executor;
  CpuLearner learner(initialize_weights(config, 1), {}, config.vocab_size, pool);
  const double seconds = best_seconds(2.0, [&] { run(executor, train_once(learner, batch)); });
  const std::string name = fmt::format("training_{}_tokens_{}_threads", batch.token_count(), threads);
  report.add(name, static_cast<double>(batch.token_count()) / seconds, "tokens/s");
  report.add(name + "_of_peak", 100 * training_operations(config, batch) / seconds / 1e9 / peak_gflops, "%");
}

int main_of(int argc, char** argv) {
  const char* json = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else {
      fmt::print(stderr, "usage: kernel_bench [--json FILE]\n");
      return 2;
    }
  }
  Report report;
  fmt::print("instruction set: {}\n", kernels().name);
  for (const int threads : {1, 2}) {
    ThreadTeam team(threads);
    const double gflops = peak(team);
    report.add(fmt::format("fma_peak_{}_threads", threads), gflops, "GFLOP/s");
    struct Shape {
      const char* name;
      int n, k;
    };
    for (const Shape& shape : {Shape{"qkv", 256, 128}, Shape{"gate_up", 512, 128}, Shape{"down", 128, 256},
                               Shape{"square_1024", 1024, 1024}}) {
      for (const int m : {1, 8, 64, 512}) {
        report.add(fmt::format("matmul_{}_m{}_{}_threads_of_peak", shape.name, m, threads),
                   100 * product(team, m, shape.n, shape.k) / gflops, "%");
      }
    }
    bench_training(report, threads, gflops, 8);
    bench_training(report, threads, gflops, 90);
  }
  if (json != nullptr && !report.write(json)) {
    fmt::print(stderr, "kernel_bench: cannot write {}; check that its folder exists.\n", json);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace stoker::cpu

int main(int argc, char** argv) { return stoker::cpu::main_of(argc, argv); }
