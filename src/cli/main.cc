#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"

namespace stoker {
namespace {

struct Verbosity {
  bool quiet = false;
  bool verbose = false;
  bool json = false;

  void apply() const {
    set_log_json(json);
    set_log_level(verbose ? LogLevel::kDebug : quiet ? LogLevel::kWarning : LogLevel::kInfo);
  }
};

void add_run_file(CLI::App& verb, RunFileArguments& arguments) {
  verb.add_option("RUN.toml", arguments.run_file, "Run file")->required();
  verb.add_option("key=value", arguments.assignments,
                  "Overrides of the run file, for example train.steps=10");
  verb.add_flag("--dry-run", arguments.dry_run, "Print the resolved configuration with origins and end");
  verb.add_option("--json", arguments.json, "Write the printed figures to this file too");
}

void add_run_folder_flags(CLI::App& verb, RunFileArguments& arguments) {
  auto* resume = verb.add_flag("--resume", arguments.resume, "Go on with the run in the run folder");
  verb.add_flag("--overwrite", arguments.overwrite, "Replace the run in the run folder")->excludes(resume);
}

void add_generate(CLI::App& verb, GenerateArguments& arguments) {
  verb.add_option("MODEL", arguments.model, "Model directory")->required();
  verb.add_option("--prompt", arguments.prompt, "One user message; without it, a chat on standard input");
  verb.add_option("--system", arguments.system, "System message");
  verb.add_option("--temperature", arguments.temperature, "0 is greedy");
  verb.add_option("--top-p", arguments.top_p, "Nucleus mass, 1 is off");
  verb.add_option("--top-k", arguments.top_k, "Keep the k likeliest, 0 is off");
  verb.add_option("--min-p", arguments.min_p, "Drop tokens under this share of the likeliest, 0 is off");
  verb.add_option("--max-tokens", arguments.max_tokens, "Longest answer, tokens");
  verb.add_option("--samples", arguments.samples, "Answers to the prompt");
  verb.add_option("--seed", arguments.seed, "Seed of the random streams");
  verb.add_option("--threads", arguments.threads, "Compute threads, 0 is one a core");
}

void add_episodes(CLI::App& verb, EpisodesArguments& arguments) {
  verb.add_option("RUN", arguments.run_folder, "Run folder")->required();
  verb.add_option("ID", arguments.id, "Show this episode: TASK.SAMPLE, as listed");
  verb.add_option("--purpose", arguments.purpose, "Only 'train' or an evaluation, as listed");
  verb.add_option("--limit", arguments.limit, "Longest list");
  verb.add_flag("--tokens", arguments.tokens, "Show each token with mask, log-probability and version");
}

// The first argument when it is neither a flag nor a verb: named with the verb it may have been meant for.
void refuse_unknown_verb(const CLI::App& app, int argument_count, char** argument_values) {
  if (argument_count < 2 || argument_values[1][0] == '-') return;
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
  if (std::find(verbs.begin(), verbs.end(), argument_values[1]) != verbs.end()) return;
  std::string near = nearest_name(argument_values[1], verbs);
  throw input_error(fmt::format("There is no verb \"{}\"{}; the verbs are {}.", argument_values[1],
                                near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near),
                                fmt::join(verbs, ", ")));
}

int command_line(int argument_count, char** argument_values) {
  CLI::App app{"Stoker trains language-model agents by reinforcement learning."};
  app.require_subcommand(1);
  app.set_version_flag("--version", "stoker 0.1.0");
  Verbosity verbosity;
  app.add_flag("--quiet", verbosity.quiet, "Only warnings, errors and results");
  app.add_flag("--verbose", verbosity.verbose, "Also what helps to find a fault");
  app.add_flag("--log-json", verbosity.json, "Log lines as JSON objects");
  app.fallthrough();

  InitArguments init;
  RunFileArguments run;
  GenerateArguments generate;
  EpisodesArguments episodes;
  std::function<int(InterruptWatch&)> chosen;

  auto* verb = app.add_subcommand(
      "init", "Write a fresh model directory: config.json, tokenizer.json, model.safetensors");
  verb->add_option("DIRECTORY", init.directory, "Where the model goes")->required();
  verb->add_option("key=value", init.assignments,
                   "Sizes, for example size=1M or hidden_size=128; 'stoker keys' lists them");
  verb->add_flag("--overwrite", init.overwrite, "Replace a model directory");
  verb->callback([&] { chosen = [&](InterruptWatch&) { return run_init(init); }; });

  verb = app.add_subcommand("sft", "Supervised fine-tuning on conversations");
  add_run_file(*verb, run);
  add_run_folder_flags(*verb, run);
  verb->callback([&] { chosen = [&](InterruptWatch& interrupts) { return run_sft(run, interrupts); }; });

  verb = app.add_subcommand("train", "Reinforcement learning");
  add_run_file(*verb, run);
  add_run_folder_flags(*verb, run);
  verb->callback([&] { chosen = [&](InterruptWatch& interrupts) { return run_train(run, interrupts); }; });

  verb = app.add_subcommand("eval", "Evaluate a model on held-out tasks");
  add_run_file(*verb, run);
  add_run_folder_flags(*verb, run);
  verb->callback([&] { chosen = [&](InterruptWatch& interrupts) { return run_eval(run, interrupts); }; });

  verb = app.add_subcommand("generate", "Chat with a model, or answer one prompt");
  add_generate(*verb, generate);
  verb->callback(
      [&] { chosen = [&](InterruptWatch& interrupts) { return run_generate(generate, interrupts); }; });

  verb = app.add_subcommand("episodes", "List the episodes of a run, or show one");
  add_episodes(*verb, episodes);
  verb->callback([&] { chosen = [&](InterruptWatch&) { return run_episodes(episodes); }; });

  verb =
      app.add_subcommand("doctor", "What this machine has: instruction set, memory, sandbox means, versions");
  verb->callback([&] { chosen = [](InterruptWatch&) { return run_doctor(); }; });

  verb = app.add_subcommand("keys", "Print every key of a run file as Markdown");
  verb->callback([&] { chosen = [](InterruptWatch&) { return run_keys(); }; });

  refuse_unknown_verb(app, argument_count, argument_values);
  try {
    app.parse(argument_count, argument_values);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitWrongUse;
  }
  verbosity.apply();
  run.quiet = verbosity.quiet;
  InterruptWatch interrupts;
  return chosen(interrupts);
}

}  // namespace
}  // namespace stoker

int main(int argument_count, char** argument_values) {
  try {
    return stoker::command_line(argument_count, argument_values);
  } catch (const stoker::Error& error) {
    stoker::log_error("{}", error.what());
    return error.kind() == stoker::ErrorKind::kInput ? stoker::kExitWrongUse : stoker::kExitFailed;
  } catch (const std::bad_alloc&) {
    stoker::log_error(
        "Out of memory: this machine has too little for the run; use a smaller model, engine.max_batch or "
        "engine.cache_megabytes.");
  } catch (const std::exception& error) {
    stoker::log_error("Unexpected failure: {}", error.what());
  }
  return stoker::kExitFailed;
}
