#include <fmt/core.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
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

// The last header of the run's event log: what a resumed run was set to last.
TraceRunSettings settings_of(const std::filesystem::path& run_folder) {
  const std::filesystem::path log = run_folder / "events.jsonl";
  std::optional<ControllerOptions> options;
  for_each_line(log, [&](std::string_view line, size_t number, bool complete) {
    if (complete && line.starts_with("{\"event_log\"")) {
      const Json header = Json::parse(line, fmt::format("{}, line {}", log.string(), number));
      options = ControllerOptions::from_json(header.at("options"));
    }
    return true;
  });
  if (!options) {
    throw input_error(fmt::format("{} does not say how the run was set: it holds no header.", log.string()));
  }
  return {.groups_per_batch = options->groups_per_batch,
          .group_size = options->group_size,
          .max_concurrent_episodes = options->max_concurrent_episodes,
          .max_ahead = options->max_ahead};
}

// What an adaptive run found; empty: its depth is fixed, or never changed.
std::string describe_depth(const std::filesystem::path& run_folder) {
  std::optional<Decision> last;
  int64_t changes = 0;
  for_each_line(run_folder / "events.jsonl", [&](std::string_view line, size_t, bool complete) {
    if (!complete || line.find("\"set_depth\"") == std::string_view::npos) return true;
    const Json event = Json::parse(line);
    for (const Json& decision : event.at("decisions").as_array()) {
      const Decision read = Decision::from_json(decision);
      if (read.kind != DecisionKind::kSetDepth) continue;
      last = read;
      ++changes;
    }
    return true;
  });
  if (!last) return "";
  return fmt::format("Adaptive depth: {} at the end, after {} changes; the last one since {}.\n", last->depth,
                     changes, last->reason);
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

TraceSummary summarize_run(const std::filesystem::path& run_folder) {
  const std::vector<std::filesystem::path> files = trace_files(run_folder / "trace");
  if (files.empty()) {
    throw input_error(fmt::format("{} holds no trace; 'stoker train' writes one into the folder trace/.",
                                  run_folder.string()));
  }
  return summarize_trace(files, settings_of(run_folder));
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
