// What a turn costs beside the model: processor time of the whole process a turn, with a scripted engine and
// a calculator conversation of eight turns an episode, through the real executor, controller, orchestrator,
// renderer, tokenizer, parser and tool. 64, 1,024 and 10,000 episodes at once. What the trace of a turn costs
// is measured by itself.

#include <algorithm>

#include "async/real_executor.h"
#include "async/run.h"
#include "base/figure_report.h"
#include "calculator_world.h"
#include "observe/perfetto_writer.h"
#include "rollout/run_activity.h"
#include "support.h"
#include "trace_folder.h"

namespace stoker {
namespace {

constexpr int32_t kTurns = 8;
double microseconds_a_turn(int32_t concurrent, int32_t batches) {
  const double before = process_cpu_seconds();
  // Long enough that all episodes are in flight together.
  const Duration latency = std::chrono::microseconds(5000 + 40 * concurrent);
  const CalculatorWorld world({.turns = kTurns});
  ScriptedEngine engine = world.engine([latency](const StreamKey&) { return latency; });
  RealExecutor executor;
  const int64_t turns = run(executor, roll_out(world, engine,
                                               {.concurrent = concurrent,
                                                .groups_per_batch = concurrent / RolloutScale::kGroupSize,
                                                .batches = batches}));
  return (process_cpu_seconds() - before) * 1e6 / static_cast<double>(turns);
}

// The least of several runs: what else runs on the machine only ever adds.
double least_microseconds(int32_t concurrent, int32_t batches, int32_t runs) {
  double least = microseconds_a_turn(concurrent, batches);
  for (int32_t i = 1; i < runs; ++i) least = std::min(least, microseconds_a_turn(concurrent, batches));
  return least;
}

int64_t nanoseconds(const Executor& executor) { return executor.now().time_since_epoch().count(); }

// What an episode of many turns tells of itself, as EpisodePlay does, with the times that it asks for beside.
void trace_turns(const Executor& executor, EpisodeActivity& episode, int32_t turns) {
  for (int32_t turn = 0; turn < turns; ++turn) {
    episode.enter(TraceSpan::kQueue, turn, nanoseconds(executor));
    episode.enter(TraceSpan::kPrefill, turn, nanoseconds(executor));
    episode.enter(TraceSpan::kDecode, turn, nanoseconds(executor));
    const int64_t end = nanoseconds(executor);
    episode.leave(end);
    episode.expect(TraceSpan::kTool, turn, end);
    episode.enter(TraceSpan::kTool, turn, end);
  }
}

// Processor time of a turn's trace, file included.
double trace_microseconds_a_turn() {
  constexpr int32_t kEpisodes = 2000;
  const TraceFolder folder;
  RealExecutor executor;
  PerfettoWriter writer(folder.path(), {});
  RunActivity run(&writer);
  const double before = process_cpu_seconds();
  for (uint64_t i = 0; i < kEpisodes; ++i) {
    EpisodeActivity episode(executor, &run, {.task_ordinal = i}, false);
    trace_turns(executor, episode, kTurns);
  }
  writer.flush();
  return (process_cpu_seconds() - before) * 1e6 / (kEpisodes * kTurns);
}

void measure(FigureReport& report) {
  double trace = trace_microseconds_a_turn();
  for (int i = 0; i < 4; ++i) trace = std::min(trace, trace_microseconds_a_turn());
  report.add("trace_turn_microseconds", trace, "us");
  report.add("turn_microseconds_64", least_microseconds(64, 20, 5), "us");
  report.add("turn_microseconds_1024", least_microseconds(1024, 3, 15), "us");
  report.add("turn_microseconds_10000", least_microseconds(10'000, 2, 2), "us");
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) {
  return stoker::bench_main(argc, argv, "orchestration_bench", stoker::measure);
}
