// Outside environments over the protocol: processor time of Stoker a turn with 1,000 episodes at once on 8
// processes, and how fast a killed process is replaced. What happens when processes go wrong all the time is
// measured by outage_bench.

#include <algorithm>
#include <csignal>
#include <ctime>
#include <string>
#include <vector>

#include "async/collect.h"
#include "async/pool.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "async/sleep.h"
#include "base/error.h"
#include "base/figure_report.h"
#include "environment/command/command_kind.h"
#include "environment/command/worker_pool.h"
#include "support.h"

namespace stoker {
namespace {

constexpr int kAtOnce = 1000;
constexpr int kProcesses = 8;
constexpr int kTurns = 20;
constexpr int kRuns = 3;

double processor_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

CommandEnvironmentOptions options_for(int processes) {
  CommandEnvironmentOptions options;
  options.process.command = {STOKER_OUTSIDE_CHILD};
  options.process.processes = processes;
  options.process.restarts = 1'000'000;
  return options;
}

Pool& pool_for_environments() {
  static Pool pool;
  return pool;
}

// Episodes between reset and close, and the most there ever were.
struct OpenEpisodes {
  int now = 0;
  int most = 0;
};

// Each turn is a call of the environment's tool: a request and its answer, as a step is.
Task<int> turns(const EnvironmentKind* kind, int episode, int count, OpenEpisodes* open) {
  const std::unique_ptr<Environment> environment = kind->make(pool_for_environments());
  const TaskRow task{"row", Json::object({{"do", ""}, {"value", episode}})};
  int done = 0;
  if ((co_await environment->reset(task, 1)).ok()) {
    open->most = std::max(open->most, ++open->now);
    Tool* tool = environment->tools().at(0);
    for (; done < count; ++done) {
      if (!(co_await tool->call(Json::object())).ok()) break;
    }
    --open->now;
  }
  co_await environment->close();
  co_return done;
}

Task<int> all_turns(const EnvironmentKind* kind, int count, OpenEpisodes* open) {
  std::vector<Task<int>> tasks;
  for (int i = 0; i < kAtOnce; ++i) tasks.push_back(turns(kind, i, count, open));
  int total = 0;
  for (int done : co_await collect_all(std::move(tasks))) total += done;
  co_return total;
}

void measure_turns(FigureReport& report) {
  RealExecutor executor;
  auto kind = make_command(options_for(kProcesses));
  OpenEpisodes open;
  run(executor, kind->open());
  run(executor, all_turns(kind.get(), 1, &open));
  // The least of several runs of each: what else runs on the machine only ever adds. What the episodes'
  // beginnings and ends cost is in both.
  double with_one = 1e9, with_all = 1e9;
  for (int i = 0; i < kRuns; ++i) {
    const double begin = processor_seconds();
    run(executor, all_turns(kind.get(), 1, &open));
    const double between = processor_seconds();
    const int done = run(executor, all_turns(kind.get(), 1 + kTurns, &open));
    const double end = processor_seconds();
    with_one = std::min(with_one, between - begin);
    with_all = std::min(with_all, end - between);
    if (done != kAtOnce * (1 + kTurns)) throw internal_error("A turn was lost.");
  }
  const double microseconds = (with_all - with_one) * 1e6 / (kAtOnce * kTurns);
  report.add({"outside_episodes_at_once", static_cast<double>(open.most), "episodes", {}, {}});
  report.add({"outside_processes", kProcesses, "processes", {}, {}});
  report.add({"outside_turn_cpu", microseconds, "us", 60.0, {}});
}

void measure_replacement(FigureReport& report) {
  RealExecutor executor;
  auto pool = std::make_shared<WorkerPool>(options_for(1).process, "environment.command");
  run(executor, pool->open());
  double worst = 0;
  for (int i = 0; i < 10; ++i) {
    const int64_t replaced = pool->replaced();
    ::kill(pool->process_ids().at(0), SIGKILL);
    const TimePoint begin = executor.now();
    while (pool->replaced() == replaced || !run(executor, pool->ask("ping", Json())).ok()) {
      run(executor, sleep_for(std::chrono::milliseconds(1)));
    }
    worst = std::max(worst, to_seconds(executor.now() - begin));
  }
  report.add({"outside_replacement", worst, "s", 1.0, {}});
}

void measure(FigureReport& report) {
  measure_turns(report);
  measure_replacement(report);
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) { return stoker::bench_main(argc, argv, "outside_bench", stoker::measure); }
