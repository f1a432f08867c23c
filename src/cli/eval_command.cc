#include <fmt/core.h>

#include "async/run.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/figures.h"
#include "cli/policy_evaluator.h"
#include "cli/preflight.h"
#include "cli/run_start.h"
#include "trajectory/episode_file.h"

namespace stoker {
namespace {

std::vector<Figure> evaluation_figures(const Evaluation& evaluation, int64_t seed) {
  std::vector<Figure> figures;
  for (const auto& [name, value] : evaluation.metrics) figures.push_back({name, value, "", seed});
  return figures;
}

}  // namespace

int run_eval(const RunFileArguments& arguments, InterruptWatch& interrupts) {
  RunFile file = read_run_file(arguments);
  if (arguments.dry_run) {
    fmt::print("{}", file.resolved);
    return kExitDone;
  }
  check_run_folder(arguments, file.config);
  Session session(file.config);
  check_before_run(session, file.config);
  RunStart start = start_run(arguments, file, "eval");
  EpisodeWriter episodes(start.folder.episodes());
  PolicyEvaluator evaluator(session, file.config,
                            [&episodes](const EpisodeRecord& record) { episodes.append(record); });
  CancellationSource stop;
  interrupts.deliver_to(session.executor(), [&stop] { stop.request(CancelReason::kShutdown); });
  Evaluation evaluation;
  try {
    evaluation = run(session.executor(), evaluator.evaluate(session.weights(), 0), stop.token(), "eval");
  } catch (const Cancelled&) {
    log_info("Interrupted; an evaluation has nothing to save before its end.");
    return kExitInterrupted;
  }
  interrupts.withdraw();
  std::vector<Figure> figures = evaluation_figures(evaluation, file.config.seed);
  for (const Figure& figure : figures) fmt::print("{:<44}{:.4g}\n", figure.name, figure.value);
  fmt::print("{:<44}{}\n", "run folder", start.folder.path().string());
  write_figures(arguments.json, figures);
  return kExitDone;
}

}  // namespace stoker
