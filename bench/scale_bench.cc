// What many episodes at once cost, with a scripted engine in real time and with trace and event log: prompts
// of 64 tokens, four turns of 32 sampled and 32 observed tokens. Processor time a turn; 100,000 episodes
// alive at once; memory after a million short episodes beside that after 100,000; and how much later than a
// bare timer a turn of 10,000 episodes goes on.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <unordered_map>
#include <vector>

#include "async/real_executor.h"
#include "async/run.h"
#include "async/scope.h"
#include "async/sleep.h"
#include "base/error.h"
#include "base/figure_report.h"
#include "base/file.h"
#include "base/random.h"
#include "calculator_world.h"
#include "observe/perfetto_writer.h"
#include "rollout/run_activity.h"
#include "support.h"
#include "trace_folder.h"

namespace stoker {
namespace {

constexpr double kMeanSeconds = 2;
constexpr int32_t kTurns = 4;
constexpr int32_t kMeasuredEpisodes = 10'000;

CalculatorWorld world_of(int32_t turns) {
  return CalculatorWorld(CalculatorWorld::of_size(turns, 64, 32, 32));
}

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

double resident_bytes() {
  const std::string text = read_file("/proc/self/statm");
  const double pages = std::stod(text.substr(text.find(' ')));
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

struct Cost {
  double microseconds = 0;  // of processor time a turn
  int64_t most_at_once = 0;
};

// A turn takes `latency`, or by how much of it `spread` says less or more.
Cost cost_of_turns(int32_t concurrent, int32_t batches, Duration latency, double spread = 0) {
  const TraceFolder folder;
  Cost cost;
  const double before = process_cpu_seconds();
  const CalculatorWorld world = world_of(kTurns);
  const ScriptedEngine* serving = nullptr;
  ScriptedEngine engine = world.engine([&](const StreamKey& stream) {
    cost.most_at_once = std::max(cost.most_at_once, serving->statistics().running_requests);
    const double factor = 1 + spread * (2 * random_uniform(stream, 0) - 1);
    return from_seconds(to_seconds(latency) * factor);
  });
  serving = &engine;
  RealExecutor executor;
  PerfettoWriter trace(folder.path(), {});
  RunActivity activity(&trace);
  const int64_t turns = run(executor, roll_out(world, engine,
                                               {.concurrent = concurrent,
                                                .groups_per_batch = concurrent / RolloutScale::kGroupSize,
                                                .batches = batches,
                                                .activity = &activity}));
  trace.flush();
  cost.microseconds = (process_cpu_seconds() - before) * 1e6 / static_cast<double>(turns);
  return cost;
}

// Resident memory after a million episodes of one turn over that after 100,000.
double memory_growth() {
  constexpr int32_t kConcurrent = 1024;
  constexpr int64_t kEarly = 100'000, kLate = 1'000'000;
  const CalculatorWorld world = world_of(1);
  ScriptedEngine engine = world.engine([](const StreamKey&) { return std::chrono::milliseconds(5); });
  double early = 0, late = 0;
  RealExecutor executor;
  run(executor, roll_out(world, engine,
                         {.concurrent = kConcurrent,
                          .groups_per_batch = kConcurrent / RolloutScale::kGroupSize,
                          .batches = static_cast<int32_t>(kLate / kConcurrent) + 1,
                          .after_batch = [&](int64_t episodes) {
                            if (early == 0 && episodes >= kEarly) early = resident_bytes();
                            if (episodes >= kLate) late = resident_bytes();
                          }}));
  return late / early;
}

Duration drawn_latency(const StreamKey& stream) {
  return from_seconds(-kMeanSeconds * std::log(1 - random_uniform(stream, 0)));
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) throw internal_error("The benchmark measured nothing.");
  const auto place = values.begin() + static_cast<int64_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

Task<> sleep_again_and_again(uint64_t sleeper, TimePoint end, std::vector<double>* late_milliseconds) {
  Executor& executor = co_await current_executor();
  for (uint32_t turn = 0; executor.now() < end; ++turn) {
    const TimePoint due = executor.now() + drawn_latency({.task_ordinal = sleeper, .turn = turn});
    co_await sleep_until(due);
    late_milliseconds->push_back(to_seconds(executor.now() - due) * 1e3);
  }
}

Task<> bare_timers(Duration time, std::vector<double>* late_milliseconds) {
  Executor& executor = co_await current_executor();
  Scope scope(executor, co_await current_cancellation());
  for (uint64_t sleeper = 0; sleeper < kMeasuredEpisodes; ++sleeper) {
    scope.spawn(sleep_again_and_again(sleeper, executor.now() + time, late_milliseconds));
  }
  co_await scope.join();
}

// How much later than its engine's latency a turn's successor asks the engine, in milliseconds. The first
// seconds, in which all episodes start at once, do not count.
std::vector<double> added_milliseconds(Duration warm_up) {
  struct Asked {
    TimePoint time;
    Duration latency;
  };
  std::unordered_map<uint64_t, Asked> asked;
  std::vector<double> added;
  RealExecutor executor;
  const CalculatorWorld world = world_of(kTurns);
  ScriptedEngine engine = world.engine([&](const StreamKey& stream) {
    const TimePoint now = executor.now();
    const Duration latency = drawn_latency(stream);
    const uint64_t episode = stream.task_ordinal * RolloutScale::kGroupSize + stream.sample;
    if (stream.turn > 0) {
      const Asked& before = asked.at(episode);
      if (before.time.time_since_epoch() > warm_up) {
        added.push_back(to_seconds(now - before.time - before.latency) * 1e3);
      }
    }
    if (stream.turn + 1 < kTurns) {
      asked[episode] = {now, latency};
    } else {
      asked.erase(episode);
    }
    return latency;
  });
  constexpr int32_t kGroupsPerBatch = 16;
  constexpr int32_t kBatchesAtOnce = kMeasuredEpisodes / (kGroupsPerBatch * RolloutScale::kGroupSize);
  run(executor, roll_out(world, engine,
                         {.concurrent = kMeasuredEpisodes,
                          .groups_per_batch = kGroupsPerBatch,
                          .batches = 3 * kBatchesAtOnce,
                          .max_ahead = 2 * kBatchesAtOnce}));
  return added;
}

void measure(FigureReport& report) {
  report.add("memory_million_over_100000", memory_growth(), "");
  report.add("turn_microseconds_64", cost_of_turns(64, 40, std::chrono::milliseconds(8)).microseconds, "us");
  report.add("turn_microseconds_1024", cost_of_turns(1024, 8, std::chrono::milliseconds(50)).microseconds,
             "us");
  std::vector<double> bare;
  {
    RealExecutor executor;
    run(executor, bare_timers(std::chrono::seconds(10), &bare));
  }
  const std::vector<double> added = added_milliseconds(std::chrono::seconds(4));
  report.add("bare_timer_late_p99", percentile(bare, 0.99), "ms");
  report.add("turn_late_p99", percentile(added, 0.99), "ms");
  report.add("turn_added_latency_p99", percentile(added, 0.99) - percentile(bare, 0.99), "ms");
  // Spread as those of a real engine are: else all are between two turns at the same moment.
  const Cost many = cost_of_turns(100'000, 1, std::chrono::seconds(15), 0.3);
  report.add("turn_microseconds_100000", many.microseconds, "us");
  report.add("episodes_at_once", static_cast<double>(many.most_at_once), "");
  report.add("peak_gigabytes_100000", peak_bytes() * 1e-9, "GB");
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) { return stoker::bench_main(argc, argv, "scale_bench", stoker::measure); }
