#include <fmt/core.h>

#include <exception>

#include "async/run.h"
#include "base/figure_report.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "cli/preflight.h"
#include "cli/run_recorder.h"
#include "cli/run_start.h"
#include "compute/cpu/cpu_learner.h"
#include "model/model_directory.h"
#include "train/sft.h"

namespace stoker {
namespace {

std::vector<RunRecorder::Column> sft_step_columns() {
  return {{"loss", "loss", "{:.4f}"},
          {"grad_norm", "grad norm", "{:.3f}"},
          {"learning_rate", "lr", "{:.2e}"},
          {"training_tok/s", "tok/s", "{:.0f}"},
          {"step_time", "step", "{:.3f}s"}};
}

// Demonstrations are rendered as rollouts will be: with the tools that the environment offers.
std::unique_ptr<SftExampleSource> make_examples(const RunConfig& config, Session& session,
                                                std::vector<ToolSchema> tools) {
  auto seed = static_cast<uint64_t>(config.seed);
  if (config.sft.conversations.empty()) {
    return demonstration_examples(session.environment(), session.renderer(), std::move(tools), seed);
  }
  return conversation_examples(ConversationFile(config.sft.conversations), session.renderer(), seed);
}

BeforeRun check_sft(Session& session, const RunConfig& config, InterruptWatch& interrupts) {
  const MemorySettings settings{.compute_type = compute_type(config.model.compute_type),
                                .vocabulary_size = session.vocabulary_size(),
                                .threads = session.compute().threads(),
                                .micro_batch_tokens = config.sft.micro_batch_tokens,
                                .micro_batch_key = "sft.micro_batch_tokens",
                                .recompute = recompute_setting(config.recompute),
                                .limit_megabytes = config.memory_megabytes};
  const CheckedMemory memory = check_memory(session.weights()->config(), settings, available_memory());
  BeforeRun report;
  if (config.sft.conversations.empty()) report = check_environment(session, config, interrupts);
  report.lines.insert(report.lines.begin(), memory.line);
  report.recompute = memory.recompute;
  return report;
}

}  // namespace

int run_sft(const RunFileArguments& arguments, InterruptWatch& interrupts) {
  RunFile file = read_run_file(arguments);
  const RunConfig& config = file.config;
  if (arguments.dry_run) {
    fmt::print("{}", file.resolved);
    return kExitDone;
  }
  check_run_folder(arguments, file.config);
  Session session(config);
  BeforeRun before = check_sft(session, config, interrupts);
  std::unique_ptr<SftExampleSource> examples = make_examples(config, session, before.tools);
  SftExample first = examples->example(0);

  RunStart start = start_run(arguments, file, "sft");
  for (const std::string& line : before.lines) log_info("{}", line);
  log_info("First example ({} tokens, {} trained): {}", first.tokens.size(), first.trained_count(),
           excerpt(*session.tokenizer(), first.tokens));
  cpu::CpuLearner learner(starting_weights(start, session), optimizer_options(config.sft.optimizer),
                          session.vocabulary_size(), session.compute(),
                          compute_type(config.model.compute_type), before.recompute);
  if (start.checkpoint)
    learner.restore(starting_weights(start, session), start.checkpoint->optimizer_folder());
  RunRecorder recorder(session.executor(), start.folder.path(), config.sft.steps, sft_step_columns(),
                       arguments.quiet, start.resume_step(), config.metrics_port);
  SftParts parts{.learner = learner,
                 .examples = *examples,
                 .checkpoints = &start.checkpoints,
                 .blocking = &session.blocking(),
                 .on_step = [&recorder](int64_t step, const MetricMap& metrics) {
                   recorder.record_step(step, metrics);
                 }};
  SftTrainer trainer(config.sft, config.checkpoint, parts, start.state);
  auto delivery = interrupts.deliver_to(session.executor(), [&trainer] { trainer.request_stop(); });
  SftSummary summary = run(session.executor(), trainer.run(), {}, "sft");
  recorder.finish();

  WeightsPtr weights = run(session.executor(), learner.snapshot());
  write_folder_atomic(start.folder.model(), [&](const std::filesystem::path& folder) {
    save_model(folder, *weights, start.tokenizer_source());
  });
  if (summary.converged) fmt::print("stop_loss reached\n");
  fmt::print("model                       {}\n", start.folder.model().string());
  if (summary.checkpoint) fmt::print("checkpoint                  {}\n", summary.checkpoint->string());
  FigureReport report;
  report.add({"sft_steps", static_cast<double>(summary.state.step), "steps", {}, config.seed});
  write_figures(report, arguments.json);
  if (!summary.interrupted) return kExitDone;
  log_info("Interrupted after step {}; 'stoker sft ... --resume' goes on from there.", summary.state.step);
  return kExitInterrupted;
}

}  // namespace stoker
