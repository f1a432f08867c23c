#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "base/testing/test_folder.h"
#include "cli/bench_async_real.h"
#include "cli/bench_async_result.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShare = "eval/temperature_1/success";

MetricsLine step_line(int64_t step, double seconds, MetricMap more = {}) {
  more["step_time"] = 1;
  return {step, seconds, std::move(more)};
}

MetricsLine evaluation_line_at(int64_t step, double seconds, double success) {
  return {step, seconds, {{kShare, success}}};
}

std::string refusal_of_bench(const BenchAsyncArguments& arguments) {
  try {
    run_bench_async(arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(BenchAsyncTarget, IsTheEndOfTheFirstStepThatReachedItWhateverTheOrderOfTheLines) {
  for (uint64_t round = 0; round < 200; ++round) {
    RandomStream random({.run_seed = round, .purpose = RandomPurpose::kData});
    const double target = random.uniform();
    std::vector<double> ends{0}, success;
    for (int step = 0; step <= 8; ++step) {
      if (step > 0) ends.push_back(ends.back() + random.uniform());
      success.push_back(random.uniform() < 0.3 ? -1 : random.uniform());  // -1: not evaluated
    }
    std::vector<MetricsLine> lines;
    for (int step = 8; step >= 0; --step) {
      if (step > 0) lines.push_back(step_line(step, ends[step]));
      if (success[step] >= 0) lines.push_back(evaluation_line_at(step, 100 + step, success[step]));
    }
    const auto found = time_to_target(lines, kShare, target);
    int expected = 0;
    while (expected <= 8 && success[expected] < target) ++expected;
    ASSERT_EQ(found.has_value(), expected <= 8);
    if (!found) continue;
    EXPECT_EQ(found->step, expected);
    EXPECT_EQ(found->seconds, ends[expected]);
  }
}

TEST(BenchAsyncFigures, ComeFromTheStepsAndTheTraceAlone) {
  const std::vector<MetricsLine> lines = {
      evaluation_line_at(0, 50, 0.2),
      step_line(1, 2, {{"rows/total", 64}, {"rows/trained", 32}, {"staleness/lag/max", 3}, {"version", 1}}),
      step_line(2, 5,
                {{"rows/total", 60},
                 {"rows/trained", 40},
                 {"time/publish", 0.5},
                 {"version", 2},
                 {"process/peak_memory_bytes", 3.0 * (1 << 20)}}),
      evaluation_line_at(2, 52, 0.9), evaluation_line_at(1, 51, 0.7)};
  TraceSummary trace;
  trace.engine_busy = 0.25;
  trace.episode_spans = {{"episode", {.count = 10}},
                         {"prefill", {.total = 1}},
                         {"decode", {.total = 4}},
                         {"tool", {.count = 4, .mean = 0.75}}};
  const MetricMap figures = arm_figures(lines, trace, kShare, 0.8);
  EXPECT_DOUBLE_EQ(figures.at("seconds_to_target"), 5);
  EXPECT_DOUBLE_EQ(figures.at("step_to_target"), 2);
  EXPECT_DOUBLE_EQ(figures.at("success_before"), 0.2);
  EXPECT_DOUBLE_EQ(figures.at("final_success"), 0.9);
  EXPECT_DOUBLE_EQ(figures.at("seconds"), 5);
  EXPECT_DOUBLE_EQ(figures.at("trajectories_per_hour"), 124 / 5.0 * 3600);
  EXPECT_DOUBLE_EQ(figures.at("useful_trajectories_per_hour"), 72 / 5.0 * 3600);
  EXPECT_DOUBLE_EQ(figures.at("weight_updates_per_minute"), 24);
  EXPECT_DOUBLE_EQ(figures.at("publish_share"), 0.1);
  EXPECT_DOUBLE_EQ(figures.at("lag_max"), 3);
  EXPECT_DOUBLE_EQ(figures.at("peak_memory_mebibytes"), 3);
  EXPECT_DOUBLE_EQ(figures.at("engine_utilisation"), 0.25);
  EXPECT_DOUBLE_EQ(figures.at("generation_seconds"), 0.5);
  EXPECT_DOUBLE_EQ(figures.at("tool_seconds"), 0.75);
  EXPECT_FALSE(arm_figures(lines, trace, kShare, 0.95).contains("seconds_to_target"));
  EXPECT_THROW(arm_figures({lines[0]}, trace, kShare, 0.8), Error);
}

TEST(BenchAsyncComparison, PairsTheArmsSeedBySeed) {
  std::vector<ArmResult> results;
  const auto add = [&](int64_t seed, const char* arm, MetricMap figures) {
    results.push_back({.arm = arm, .seed = seed, .figures = std::move(figures)});
  };
  for (int64_t seed = 1; seed <= 4; ++seed) {
    // Seed 2's synchronous run never got there.
    add(seed, "sync_latency", seed == 2 ? MetricMap{} : MetricMap{{"seconds_to_target", 10.0 * seed}});
    add(seed, "async_latency", {{"seconds_to_target", 4.0 + seed}});
  }
  const std::vector<double> ratios = {10 / 5.0, 30 / 7.0, 40 / 8.0};
  const Comparison ratio =
      compare_arms(results, "x", "sync_latency", "async_latency", "seconds_to_target", true);
  EXPECT_EQ(ratio.pairs, 3);
  EXPECT_EQ(ratio.seeds, 4);
  EXPECT_DOUBLE_EQ(ratio.median, 30 / 7.0);
  EXPECT_DOUBLE_EQ(ratio.interval.mean, (ratios[0] + ratios[1] + ratios[2]) / 3);
  EXPECT_DOUBLE_EQ(ratio.interval.low, bootstrap_interval(ratios).low);
  EXPECT_DOUBLE_EQ(ratio.interval.high, bootstrap_interval(ratios).high);

  const Comparison difference =
      compare_arms(results, "x", "sync_latency", "async_latency", "seconds_to_target", false);
  EXPECT_DOUBLE_EQ(difference.median, 23);  // of 5, 23 and 32

  const std::vector<Comparison> all = protocol_comparisons(results);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[0].median, ratio.median);
  const std::string text = to_markdown(results, all);
  EXPECT_NE(text.find("| seconds of training to the target | 26.7 (3 of 4 seeds) | 6.5 |"), std::string::npos)
      << text;
  EXPECT_NE(text.find("with latency: median 4.29, mean 3.76"), std::string::npos) << text;
  EXPECT_NE(text.find("without latency: no seed of 4 has it"), std::string::npos) << text;
}

TEST(BenchAsyncReal, RefusesWhatItCannotRun) {
  const TestFolder folder;
  EXPECT_NE(refusal_of_bench({.steps = 30}).find("at least 31 on the virtual clock"), std::string::npos);
  BenchAsyncArguments arguments{.real = true, .recipe = folder.path(), .output = folder.path() / "out"};
  EXPECT_NE(refusal_of_bench(arguments).find("holds no run.toml"), std::string::npos);
  arguments.steps = -1;
  EXPECT_NE(refusal_of_bench(arguments).find("--steps is -1"), std::string::npos);
  EXPECT_FALSE(fs::exists(arguments.output));
}

// All of it on a model of a few thousand parameters that knows nothing.
class BenchAsyncTinyRun : public testing::Test {
 protected:
  BenchAsyncTinyRun() {
    write_file_atomic(folder_.path() / "run.toml", R"(
[agent]
kind = "conversation"
[environment]
kind = "question_answering"
[rollout]
group_size = 2
[rollout.limits]
max_turn_tokens = 2
[engine]
cache_megabytes = 16
[evaluate]
tasks = 1
)");
    write_file_atomic(folder_.path() / "questions.jsonl", "{\"prompt\": \"Pick x\", \"answer\": 1}\n");
    run_init({.directory = folder_.path() / "model",
              .assignments = {"hidden_size=32", "num_hidden_layers=1", "num_attention_heads=2",
                              "num_key_value_heads=1", "head_dim=16", "intermediate_size=32"}});
    const std::string questions = (folder_.path() / "questions.jsonl").string();
    const std::string held_out = (folder_.path() / "held_out.jsonl").string();
    write_file_atomic(held_out, "{\"prompt\": \"Pick y\", \"answer\": 1}\n");
    arguments_ = {
        .steps = 2,
        .seeds = 1,
        .real = true,
        .recipe = folder_.path(),
        .model = folder_.path() / "model",
        .output = folder_.path() / "out",
        .target = 1,
        .assignments = {"rollout.groups_per_step=1", "environment.question_answering.train_file=" + questions,
                        "environment.question_answering.evaluation_file=" + held_out},
        .program = STOKER_PROGRAM};
  }

  // Of the result file: the value of a figure.
  double figure(const std::string& name) const {
    const Json figures = Json::parse(read_file(arguments_.output / "result.json"));
    for (const Json& row : figures.as_array()) {
      if (row.at("name") == Json(name)) return row.at("value").as_double();
    }
    ADD_FAILURE() << "no figure " << name;
    return 0;
  }

  TestFolder folder_;
  BenchAsyncArguments arguments_;
};

TEST_F(BenchAsyncTinyRun, RunsEveryArmOnceAndKeepsWhatIsThere) {
  ASSERT_EQ(run_bench_async(arguments_), kExitDone);
  for (const char* arm : {"sync", "async", "sync_latency", "async_latency"}) {
    EXPECT_GT(figure(arm + std::string("/trajectories_per_hour")), 0) << arm;
    EXPECT_GT(figure(arm + std::string("/peak_memory_mebibytes")), 1) << arm;
    EXPECT_EQ(figure(arm + std::string("/final_success")), 0) << arm;
  }
  EXPECT_EQ(figure("sync/lag_max"), 0);
  EXPECT_NE(read_file(arguments_.output / "table.md").find("| sync | async | sync_latency | async_latency |"),
            std::string::npos);

  const fs::path kept = arguments_.output / "seed-1" / "async" / "result.json";
  write_file_atomic(kept, "{\"seconds\": 12345, \"trajectories_per_hour\": 7}");
  ASSERT_EQ(run_bench_async(arguments_), kExitDone);
  EXPECT_EQ(figure("async/seconds"), 12345);

  arguments_.latency_ratio = 3;
  EXPECT_NE(refusal_of_bench(arguments_).find("other settings"), std::string::npos);
}

}  // namespace
}  // namespace stoker
