// What orchestration lets through, in real time and beside the same work of other systems
// (peers/orchestration.py): turns a second with a scripted engine that answers at once, at 64 and at 1,024
// episodes, and how busy 256 episodes keep an engine whose latency is lognormal, 50 ms in the mean. Four
// turns an episode, groups of eight, prompts of 64 tokens, 32 sampled and 32 observed a turn, with trace and
// event log.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "async/real_executor.h"
#include "async/run.h"
#include "base/error.h"
#include "base/figure_report.h"
#include "base/random.h"
#include "calculator_world.h"
#include "observe/perfetto_writer.h"
#include "rollout/latency_law.h"
#include "rollout/run_activity.h"
#include "support.h"
#include "trace_folder.h"

namespace stoker {
namespace {

constexpr int32_t kTurns = 4;
constexpr double kMeanSeconds = 0.05;
const double kVariation = std::sqrt(std::exp(1.0) - 1);  // coefficient of it: the logarithm's deviation is 1

CalculatorWorld world() { return CalculatorWorld(CalculatorWorld::of_size(kTurns, 64, 32, 32)); }

double turns_a_second(int32_t concurrent, int32_t batches) {
  const TraceFolder folder;
  const CalculatorWorld calculators = world();
  ScriptedEngine engine = calculators.engine([](const StreamKey&) { return Duration::zero(); });
  RealExecutor executor;
  PerfettoWriter trace(folder.path(), {});
  RunActivity activity(&trace);
  int64_t turns = 0;
  const double seconds = seconds_of([&] {
    turns = run(executor, roll_out(calculators, engine,
                                   {.concurrent = concurrent,
                                    .groups_per_batch = concurrent / RolloutScale::kGroupSize,
                                    .batches = batches,
                                    .activity = &activity}));
    trace.flush();
  });
  return static_cast<double>(turns) / seconds;
}

double best_turns_a_second(int32_t concurrent, int32_t batches) {
  double best = 0;
  for (int i = 0; i < 5; ++i) best = std::max(best, turns_a_second(concurrent, batches));
  return best;
}

// Share of the time in which 256 episodes wait for the engine's latency and for nothing else, from when all
// of them are there until the last episode begins.
double utilisation(int32_t concurrent, int32_t batches) {
  struct Wait {
    double begin;
    double seconds;
  };
  std::vector<Wait> waits;
  std::vector<double> begun;  // when each episode asked for its first turn
  const TraceFolder folder;
  const CalculatorWorld calculators = world();
  RealExecutor executor;
  ScriptedEngine engine = calculators.engine([&](const StreamKey& stream) {
    const double now = to_seconds(executor.now().time_since_epoch());
    uint32_t draws = 0;
    const double seconds =
        kMeanSeconds * draw_lognormal(kVariation, [&] { return random_uniform(stream, draws++); });
    waits.push_back({now, seconds});
    if (stream.turn == 0) begun.push_back(now);
    return from_seconds(seconds);
  });
  PerfettoWriter trace(folder.path(), {});
  RunActivity activity(&trace);
  run(executor, roll_out(calculators, engine,
                         {.concurrent = concurrent,
                          .groups_per_batch = 1,
                          .batches = batches,
                          .max_ahead = batches,
                          .activity = &activity}));
  const double from = begun.at(static_cast<size_t>(concurrent) - 1), to = begun.back();
  double busy = 0;
  for (const Wait& wait : waits) {
    busy += std::max(0.0, std::min(wait.begin + wait.seconds, to) - std::max(wait.begin, from));
  }
  return busy / ((to - from) * concurrent);
}

void measure(FigureReport& report) {
  report.add("turns_per_second_64", best_turns_a_second(64, 64), "1/s");
  report.add("turns_per_second_1024", best_turns_a_second(1024, 6), "1/s");
  report.add("utilisation_256", utilisation(256, 256), "share");
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) {
  return stoker::bench_main(argc, argv, "throughput_bench", stoker::measure);
}
