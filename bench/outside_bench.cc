// Outside environments over the protocol: processor time of Stoker a turn with 1,000 episodes at once on 8
// processes, how fast a killed process is replaced, and 10,000 episodes of which a tenth each crash, hang and
// write garbage.

#include <csignal>
#include <ctime>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "async/collect.h"
#include "async/pool.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "async/sleep.h"
#include "base/error.h"
#include "base/figure_report.h"
#include "base/log.h"
#include "environment/command/command_kind.h"
#include "environment/command/worker_pool.h"
#include "support.h"

namespace stoker {
namespace {

constexpr int kAtOnce = 1000;
constexpr int kTurns = 20;
constexpr int kChurn = 10'000;

double processor_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double resident_megabytes() {
  long pages = 0, resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

int open_descriptors() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count += !entry.path().empty();
  return count;
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

// Each turn is a call of the environment's tool: a request and its answer, as a step is.
Task<int> turns(const EnvironmentKind* kind, int episode, int count) {
  const std::unique_ptr<Environment> environment = kind->make(pool_for_environments());
  const TaskRow task{"row", Json::object({{"do", ""}, {"value", episode}})};
  int done = 0;
  if ((co_await environment->reset(task, 1)).ok()) {
    Tool* tool = environment->tools().at(0);
    for (; done < count; ++done) {
      if (!(co_await tool->call(Json::object())).ok()) break;
    }
  }
  co_await environment->close();
  co_return done;
}

Task<int> all_turns(const EnvironmentKind* kind, int count) {
  std::vector<Task<int>> tasks;
  for (int i = 0; i < kAtOnce; ++i) tasks.push_back(turns(kind, i, count));
  int total = 0;
  for (int done : co_await collect_all(std::move(tasks))) total += done;
  co_return total;
}

void measure_turns(FigureReport& report) {
  RealExecutor executor;
  auto kind = make_command(options_for(8));
  run(executor, kind->open());
  run(executor, all_turns(kind.get(), 1));
  const double with_one = processor_seconds();
  run(executor, all_turns(kind.get(), 1));
  const double begin = processor_seconds();
  const int done = run(executor, all_turns(kind.get(), 1 + kTurns));
  const double end = processor_seconds();
  // What the episodes' beginnings and ends cost is in both runs.
  const double microseconds = ((end - begin) - (begin - with_one)) * 1e6 / (kAtOnce * kTurns);
  if (done != kAtOnce * (1 + kTurns)) throw internal_error("A turn was lost.");
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

// Plays one episode until it has come to an end of its own; a lost neighbour starts again.
Task<double> churn(const EnvironmentKind* kind, int episode) {
  const char* what[] = {"", "", "crash", "", "", "hang", "", "", "garbage", ""};
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const std::unique_ptr<Environment> environment = kind->make(pool_for_environments());
    const TaskRow task{"row",
                       Json::object({{"do", attempt == 0 ? what[episode % 10] : ""}, {"value", episode}})};
    bool done = (co_await environment->reset(task, 1)).ok();
    if (done) done = (co_await environment->step({.text = "x", .content = "x"})).ok();
    double score = -1;
    if (done) {
      const Result<RewardResult> given = co_await environment->score(std::nullopt);
      if (given) score = given->reward;
    }
    co_await environment->close();
    if (score >= 0) co_return score;
  }
  co_return -1;
}

Task<int> all_churn(const EnvironmentKind* kind, int first, int count) {
  std::vector<Task<double>> tasks;
  for (int i = 0; i < count; ++i) tasks.push_back(churn(kind, first + i));
  const std::vector<double> scores = co_await collect_all_windowed(std::move(tasks), 64);
  int right = 0;
  for (int i = 0; i < count; ++i) right += scores[static_cast<size_t>(i)] == first + i;
  co_return right;
}

void measure_churn(FigureReport& report) {
  const int descriptors = open_descriptors();
  int right = 0;
  double early = 0, late = 0;
  {
    RealExecutor executor;
    CommandEnvironmentOptions options = options_for(16);
    options.process.heartbeat_seconds = 0.05;
    options.process.heartbeat_timeout_seconds = 0.2;
    options.process.episodes_per_process = 4;
    auto kind = make_command(options);
    set_log_level(LogLevel::kError);
    run(executor, kind->open());
    constexpr int kParts = 10;
    for (int part = 0; part < kParts; ++part) {
      right += run(executor, all_churn(kind.get(), part * kChurn / kParts, kChurn / kParts));
      if (part == 1) early = resident_megabytes();
    }
    late = resident_megabytes();
    set_log_level(LogLevel::kInfo);
  }
  report.add(
      {"outside_churn_right", static_cast<double>(right), "episodes", static_cast<double>(kChurn), {}});
  report.add(
      {"outside_churn_descriptors", static_cast<double>(open_descriptors() - descriptors), "", 0.0, {}});
  report.add({"outside_churn_memory", late - early, "MB", {}, {}});
}

void measure(FigureReport& report) {
  measure_turns(report);
  measure_replacement(report);
  measure_churn(report);
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) { return stoker::bench_main(argc, argv, "outside_bench", stoker::measure); }
