// The kernels against the machine: a large matrix product by each instruction set in both compute types, the
// peak of fused multiply-adds, the matrix products of the demo's model as a share of it, and whole training
// steps through the Learner.
//
//   kernel_bench [--json FILE]

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "async/compute_pool.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "compute/cpu/cpu_learner.h"
#include "compute/cpu/float_buffer.h"
#include "compute/cpu/forward_pass.h"
#include "compute/cpu/kernels.h"
#include "model/weights.h"
#include "support.h"

namespace stoker::cpu {
namespace {

// C[m, n] = A[m, k] W[n, k]^T with rows split over the threads, as the decoder's stages do.
double product(Parallel& parallel, int m, int n, int k, ComputeType type = ComputeType::kFloat32) {
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
                         {b.data(), int64_t{k} * kLanes, kLanes, type, type == ComputeType::kBfloat16},
                         c.data() + rows.begin * padded(n), padded(n), Write::kStore);
      }
    });
  });
  return 2.0 * m * n * k * kRepeats / seconds / 1e9;
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
  const auto [body, head] = split_parameters(config);
  double pairs = 0;
  for (const Segment& segment : batch.segments) {
    pairs += 0.5 * static_cast<double>(segment.tokens.size() * (segment.tokens.size() + 1));
  }
  return 6 * (body * static_cast<double>(batch.token_count()) +
              head * static_cast<double>(batch.prediction_count()) +
              2 * pairs * config.query_size() * config.num_hidden_layers);
}

void bench_training(FigureReport& report, int threads, double peak_gflops, int sequences) {
  const ModelConfig config = demo_model();
  // Episodes of the demonstration: the second half is predicted.
  const Batch batch =
      training_batch(sequences, {.tokens = 67, .first_target = 35, .targets = 32}, config.vocab_size);
  ComputePool pool(threads);
  RealExecutor executor;
  CpuLearner learner(initialize_weights(config, 1), {}, config.vocab_size, pool);
  const double seconds = best_seconds(2.0, [&] { run(executor, train_once(learner, batch)); });
  const std::string name = fmt::format("training_{}_tokens_{}_threads", batch.token_count(), threads);
  report.add(name, static_cast<double>(batch.token_count()) / seconds, "tokens/s");
  report.add(name + "_of_peak", 100 * training_operations(config, batch) / seconds / 1e9 / peak_gflops, "%");
}

// Every instruction set that this processor has, on one thread: which is the fastest is decided in
// instruction_set.cc.
void bench_instruction_sets(FigureReport& report) {
  const InstructionSet chosen = instruction_set();
  SerialParallel serial;
  for (const InstructionSet set : kInstructionSets) {
    if (!is_supported(set)) continue;
    set_instruction_set(set);
    for (const ComputeType type : {ComputeType::kFloat32, ComputeType::kBfloat16}) {
      report.add(fmt::format("matmul_1024_{}_{}", to_string(set), to_string(type)),
                 product(serial, 1024, 1024, 1024, type), "GFLOP/s");
    }
  }
  set_instruction_set(chosen);
}

void measure(FigureReport& report) {
  const ModelConfig config = demo_model();
  fmt::print("instruction set: {}\n", kernels().name);
  bench_instruction_sets(report);
  for (const int threads : {1, 2}) {
    ThreadTeam team(threads);
    const double gflops = peak_gflops(team);
    report.add(fmt::format("fma_peak_{}_threads", threads), gflops, "GFLOP/s");
    struct Shape {
      const char* name;
      int n, k;
    };
    const int width = config.hidden_size, inner = config.intermediate_size;
    for (const Shape& shape : {Shape{"qkv", config.query_size() + 2 * config.key_value_size(), width},
                               Shape{"gate_up", 2 * inner, width}, Shape{"down", width, inner},
                               Shape{"square_1024", 1024, 1024}}) {
      for (const int m : {1, 8, 64, 512}) {
        report.add(fmt::format("matmul_{}_m{}_{}_threads_of_peak", shape.name, m, threads),
                   100 * product(team, m, shape.n, shape.k) / gflops, "%");
      }
    }
    bench_training(report, threads, gflops, 8);
    bench_training(report, threads, gflops, 90);
  }
}

}  // namespace
}  // namespace stoker::cpu

int main(int argument_count, char** arguments) {
  return stoker::bench_main(argument_count, arguments, "kernel_bench", stoker::cpu::measure);
}
