#include "cli/bench_async_real.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/figure_report.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/bench_async_result.h"
#include "cli/output_file.h"
#include "cli/run_trace.h"
#include "io/spawn.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 30;
constexpr const char* kSuccess = "eval/temperature_1/success";

struct RealArm {
  const char* name;
  bool asynchronous;
  bool slow_tools;
};
// In order: the first one measures the time of generation.
constexpr RealArm kArms[] = {{"sync", false, false},
                             {"async", true, false},
                             {"sync_latency", false, true},
                             {"async_latency", true, true}};

// Runs a verb of `program` and waits for it; what it prints goes to `output`. Throws Error(kResource) when it
// fails, Error(kInput) when it refuses what it was told.
void run_verb(const fs::path& program, std::vector<std::string> arguments, const fs::path& output) {
  const std::string verb = arguments.front();
  arguments.insert(arguments.begin(), {program.string(), "--quiet"});
  const Descriptor nothing = open_file("/dev/null", O_RDONLY, "read");
  const Descriptor printed = open_file(output, O_WRONLY | O_CREAT | O_TRUNC, "write");
  SpawnRequest request{.command = std::move(arguments),
                       .standard_input = nothing.get(),
                       .standard_output = printed.get(),
                       .standard_error = STDERR_FILENO};
  for (char** variable = environ; *variable != nullptr; ++variable)
    request.environment.emplace_back(*variable);
  const Result<int> process = spawn(request);
  if (!process) throw resource_error(process.failure().message);
  int status = 0;
  while (::waitpid(*process, &status, 0) < 0) {
    if (errno != EINTR) throw internal_error(fmt::format("Cannot wait for 'stoker {}'.", verb));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitDone) return;
  const std::string how = WIFEXITED(status) ? fmt::format("ended with status {}", WEXITSTATUS(status))
                                            : fmt::format("was ended by signal {}", WTERMSIG(status));
  const std::string sentence = fmt::format("'stoker {}' {}; what it said stands above.", verb, how);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitWrongUse) throw input_error(sentence);
  throw resource_error(sentence);
}

// What makes two calls compare the same things; those of another are not mixed with what lies in the folder.
Json settings_of(const BenchAsyncArguments& arguments) {
  Json assignments = Json::array();
  for (const std::string& assignment : arguments.assignments) assignments.as_array().push_back(assignment);
  return Json::object({{"recipe", arguments.recipe.string()},
                       {"model", arguments.model.string()},
                       {"steps", arguments.steps},
                       {"latency_ratio", arguments.latency_ratio},
                       {"target", arguments.target},
                       {"assignments", std::move(assignments)}});
}

void open_output(const BenchAsyncArguments& arguments) {
  std::error_code told_below;  // by who writes there
  fs::create_directories(arguments.output, told_below);
  const fs::path file = arguments.output / "bench.json";
  const Json settings = settings_of(arguments);
  if (fs::exists(file) && !(Json::parse(read_file(file), file.string()) == settings)) {
    throw input_error(fmt::format("{} holds runs of other settings ({}); give another folder with --output.",
                                  arguments.output.string(), file.string()));
  }
  write_file_atomic(file, settings.dump_pretty());
}

class RealBench {
 public:
  explicit RealBench(const BenchAsyncArguments& arguments)
      : arguments_(arguments),
        program_(arguments.program.empty() ? fs::read_symlink("/proc/self/exe") : arguments.program) {}

  void run_seed(int64_t seed) {
    const fs::path folder = arguments_.output / fmt::format("seed-{}", seed);
    std::error_code told_below;  // by who writes there
    fs::create_directories(folder, told_below);
    const fs::path model = arguments_.model.empty() ? warmed_up(seed, folder) : arguments_.model;
    double generation_seconds = 0;
    for (const RealArm& arm : kArms) {
      results_.push_back(result_of(arm, seed, folder / arm.name, model, generation_seconds));
      if (&arm == kArms) generation_seconds = results_.back().figures.at("generation_seconds");
    }
  }

  const std::vector<ArmResult>& results() const { return results_; }

 private:
  // As examples/calculator/demo.sh does.
  fs::path warmed_up(int64_t seed, const fs::path& folder) const {
    const fs::path model = folder / "habits" / "model";
    if (fs::exists(model)) return model;
    log_info("Seed {}: warming a model up", seed);
    const std::string seeded = fmt::format("seed={}", seed);
    run_verb(program_, {"init", (folder / "fresh").string(), "size=1M", seeded, "--overwrite"},
             folder / "init.txt");
    fs::path from = folder / "fresh";
    for (const char* phase : {"form", "habits"}) {
      run_verb(program_,
               {"sft", (arguments_.recipe / fmt::format("{}.toml", phase)).string(), seeded,
                "model.path=" + from.string(), "output=" + (folder / phase).string(), "--overwrite"},
               folder / fmt::format("{}.txt", phase));
      from = folder / phase / "model";
    }
    return model;
  }

  ArmResult result_of(const RealArm& arm, int64_t seed, const fs::path& run_folder, const fs::path& model,
                      double generation_seconds) const {
    const fs::path file = run_folder / "result.json";
    ArmResult result{.arm = arm.name, .seed = seed, .figures = {}};
    if (fs::exists(file)) {
      const Json figures = Json::parse(read_file(file), file.string());
      for (const auto& [name, value] : figures.as_object()) result.figures[name] = value.as_double();
      return result;
    }
    log_info("Seed {}, {}: {} steps", seed, arm.name, arguments_.steps);
    run_verb(program_, training(arm, seed, run_folder, model, generation_seconds),
             run_folder.parent_path() / fmt::format("{}.txt", arm.name));
    result.figures = arm_figures(read_metrics(run_folder / "metrics.jsonl"), summarize_run(run_folder),
                                 kSuccess, arguments_.target);
    Json figures = Json::object();
    for (const auto& [name, value] : result.figures) figures.set(name, value);
    write_file_atomic(file, figures.dump_pretty());
    return result;
  }

  // The demo's run with a quarter of its batch and a fifth of its learning rate, which stays: a step is
  // short, the target is some ten steps away, and both arms have time to end equally well. Neither deadlines
  // nor the cap take part.
  std::vector<std::string> training(const RealArm& arm, int64_t seed, const fs::path& run_folder,
                                    const fs::path& model, double generation_seconds) const {
    std::vector<std::string> words = {"train",
                                      (arguments_.recipe / "run.toml").string(),
                                      "--overwrite",
                                      "model.path=" + model.string(),
                                      "rollout.groups_per_step=8",
                                      "rollout.max_concurrent_episodes=512",
                                      "rollout.max_staleness=1000000",
                                      "rollout.limits.episode_timeout_seconds=inf",
                                      "agent.tool_timeout_seconds=inf",
                                      "train.optimizer.learning_rate=1e-4",
                                      "train.optimizer.schedule=constant",
                                      "train.evaluate_every=1",
                                      "evaluate.temperatures=[1.0]",
                                      "checkpoint.every_steps=0"};
    if (arm.asynchronous) words.emplace_back("rollout.max_ahead=2");
    words.insert(words.end(), arguments_.assignments.begin(), arguments_.assignments.end());
    words.push_back(fmt::format("seed={}", seed));
    words.push_back("output=" + run_folder.string());
    words.push_back(fmt::format("rollout.steps={}", arguments_.steps));
    words.push_back(arm.asynchronous ? "rollout.mode=async" : "rollout.mode=sync");
    words.push_back("train.evaluate_after_run=true");
    if (arm.slow_tools) {
      words.push_back("rollout.tool_latency.kind=lognormal");
      words.push_back("rollout.tool_latency.cv=2");
      words.push_back(
          fmt::format("rollout.tool_latency.mean_seconds={}", arguments_.latency_ratio * generation_seconds));
    }
    return words;
  }

  const BenchAsyncArguments& arguments_;
  fs::path program_;
  std::vector<ArmResult> results_;
};

void write_report(const BenchAsyncArguments& arguments, const std::vector<ArmResult>& results) {
  const std::vector<Comparison> comparisons = protocol_comparisons(results);
  FigureReport report;
  for (const ArmResult& result : results) {
    for (const auto& [name, value] : result.figures) {
      report.add(
          {.name = result.arm + "/" + name, .value = value, .unit = "", .baseline = {}, .seed = result.seed});
    }
  }
  for (const Comparison& comparison : comparisons) {
    if (comparison.pairs == 0) continue;
    report.add(comparison.name + ", median", comparison.median, "");
    report.add(comparison.name + ", mean", comparison.interval.mean, "");
    report.add(comparison.name + ", low", comparison.interval.low, "");
    report.add(comparison.name + ", high", comparison.interval.high, "");
  }
  const std::string text = fmt::format(
      "Means over {} paired seeds, {} steps each; success of held-out tasks at temperature 1; the target is "
      "{:g}; "
      "a slow tool call takes {:g} times the generation of an episode in the mean (lognormal, CV 2). Ratios "
      "and "
      "differences with the 95 % bootstrap interval of their mean.\n\n{}",
      arguments.seeds, arguments.steps, arguments.target, arguments.latency_ratio,
      to_markdown(results, comparisons));
  report.write(arguments.output / "result.json");
  write_file_atomic(arguments.output / "table.md", text);
  write_figures(report, arguments.json);
  write_text(text, arguments.markdown);
  fmt::print("\n{}", text);
}

}  // namespace

int run_bench_async_real(const BenchAsyncArguments& given) {
  BenchAsyncArguments arguments = given;
  if (arguments.steps == 0) arguments.steps = kSteps;
  if (arguments.steps < 1) throw input_error(fmt::format("--steps is {}; give at least 1.", arguments.steps));
  for (const char* name : {"run.toml", "form.toml", "habits.toml"}) {
    if (!arguments.model.empty() && name != std::string("run.toml")) continue;
    if (fs::exists(arguments.recipe / name)) continue;
    throw input_error(
        fmt::format("{} holds no {}; run this in the root of the tree, or name the folder with --recipe.",
                    arguments.recipe.string(), name));
  }
  open_output(arguments);
  RealBench bench(arguments);
  for (int64_t seed = 1; seed <= arguments.seeds; ++seed) bench.run_seed(seed);
  write_report(arguments, bench.results());
  return kExitDone;
}

}  // namespace stoker
