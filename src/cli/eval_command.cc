#include <fmt/core.h>

#include <filesystem>

#include "async/run.h"
#include "base/error.h"
#include "base/figure_report.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "cli/policy_evaluator.h"
#include "cli/preflight.h"
#include "cli/run_start.h"
#include "trajectory/episode_file.h"

namespace stoker {

int run_eval(const RunFileArguments& arguments, InterruptWatch& interrupts) {
  RunFile file = read_run_file(arguments);
  if (arguments.dry_run) {
    fmt::print("{}", file.resolved);
    return kExitDone;
  }
  if (std::filesystem::exists(std::filesystem::path(file.config.output) / "checkpoints")) {
    throw input_error(
        fmt::format("{} is the folder of a training run, which an evaluation does not replace; give the "
                    "evaluation a folder of its own with output=FOLDER.",
                    file.config.output));
  }
  check_run_folder(arguments, file.config);
  Session session(file.config);
  BeforeRun before = check_before_run(session, file.config, interrupts);
  RunFolder folder = open_run_folder(arguments, file);
  for (const std::string& line : before.lines) log_info("{}", line);
  EpisodeWriter episodes(folder.episodes());
  PolicyEvaluator evaluator(session, file.config,
                            [&episodes](const EpisodeRecord& record) { episodes.append(record); });
  CancellationSource stop;
  auto delivery =
      interrupts.deliver_to(session.executor(), [&stop] { stop.request(CancelReason::kShutdown); });
  Evaluation evaluation;
  try {
    evaluation = run(session.executor(), evaluator.evaluate(session.weights(), 0), stop.token(), "eval");
  } catch (const Cancelled&) {
    log_info("Interrupted; the episodes that were finished are in {}.", folder.episodes().string());
    return kExitInterrupted;
  }
  FigureReport report;
  for (const auto& [name, value] : evaluation.metrics) report.add({name, value, "", {}, file.config.seed});
  fmt::print("run folder {}\n", folder.path().string());
  write_figures(report, arguments.json);
  return kExitDone;
}

}  // namespace stoker
