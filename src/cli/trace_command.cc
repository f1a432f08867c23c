#include <fmt/core.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/figure_report.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "cli/run_trace.h"
#include "observe/trace_files.h"
#include "rollout/controller.h"

namespace stoker {
namespace {

// What the event log says of the run's last start.
struct LastStart {
  int64_t starts = 0;
  std::optional<ControllerOptions> options;
  std::optional<Decision> depth;  // the last change of the depth
  int64_t changes = 0;
};

LastStart read_last_start(const std::filesystem::path& run_folder) {
  const std::filesystem::path log = run_folder / "events.jsonl";
  LastStart last;
  for_each_line(log, [&](std::string_view line, size_t number, bool complete) {
    const bool header = line.starts_with("{\"event_log\"");
    if (!complete || (!header && line.find("\"set_depth\"") == std::string_view::npos)) return true;
    const Json read = Json::parse(line, fmt::format("{}, line {}", log.string(), number));
    if (header) {
      last = {.starts = last.starts + 1, .options = ControllerOptions::from_json(read.at("options"))};
      return true;
    }
    for (const Json& element : read.at("decisions").as_array()) {
      Decision decision = Decision::from_json(element);
      if (decision.kind != DecisionKind::kSetDepth) continue;
      last.depth = std::move(decision);
      ++last.changes;
    }
    return true;
  });
  if (!last.options) {
    throw input_error(fmt::format("{} does not say how the run was set: it holds no header.", log.string()));
  }
  return last;
}

void add_figures(const TraceSummary& summary, FigureReport& report) {
  report.add("steps", static_cast<double>(summary.steps), "steps");
  report.add("seconds", summary.window, "s");
  report.add("learner_utilisation", summary.learner_busy, "share");
  report.add("learner_compute", summary.learner_compute, "share");
  report.add("engine_utilisation", summary.engine_busy, "share");
  report.add("episodes_in_flight", summary.running_mean, "episodes");
  const auto add_spans = [&](const char* prefix, const std::map<std::string, SpanTimes>& spans) {
    for (const auto& [name, times] : spans) report.add(fmt::format("{}/{}", prefix, name), times.total, "s");
  };
  add_spans("episodes", summary.episode_spans);
  add_spans("groups", summary.group_spans);
  add_spans("learner", summary.learner_spans);
  report.add("predicted_gain", summary.advice.gain, "share");
}

}  // namespace

TraceRunSettings trace_settings(const std::filesystem::path& run_folder) {
  const LastStart last = read_last_start(run_folder);
  const ControllerOptions& options = *last.options;
  TraceRunSettings settings{.groups_per_batch = options.groups_per_batch,
                            .group_size = options.group_size,
                            .max_concurrent_episodes = options.max_concurrent_episodes,
                            .max_ahead = options.max_ahead};
  if (options.adaptive_depth) {
    settings.adaptive_most = options.max_ahead;
    settings.max_ahead = last.depth ? last.depth->depth : 1;
  }
  return settings;
}

std::string describe_depth(const std::filesystem::path& run_folder) {
  const LastStart last = read_last_start(run_folder);
  if (!last.options->adaptive_depth) return "";
  const char* since = last.starts > 1 ? " since the run was resumed" : "";
  if (!last.depth) return fmt::format("Adaptive depth: 1, without a change{}.\n", since);
  return fmt::format("Adaptive depth: {} at the end, after {} change{}{}; the last one since {}.\n",
                     last.depth->depth, last.changes, last.changes == 1 ? "" : "s", since,
                     last.depth->reason);
}

TraceSummary summarize_run(const std::filesystem::path& run_folder) {
  const std::vector<std::filesystem::path> files = trace_files(run_folder / "trace");
  if (files.empty()) {
    throw input_error(fmt::format("{} holds no trace; 'stoker train' writes one into the folder trace/.",
                                  run_folder.string()));
  }
  return summarize_trace(files, trace_settings(run_folder));
}

int run_trace_summary(const TraceSummaryArguments& arguments) {
  const TraceSummary summary = summarize_run(arguments.run_folder);
  if (arguments.json.empty()) {
    fmt::print("{}{}", to_text(summary), describe_depth(arguments.run_folder));
    return kExitDone;
  }
  fmt::print("{}{}\n", to_text(summary), describe_depth(arguments.run_folder));
  FigureReport report;
  add_figures(summary, report);
  write_figures(report, arguments.json);
  return kExitDone;
}

}  // namespace stoker
