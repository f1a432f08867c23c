#include "cli/command_line.h"

#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "async/cancellation_token.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/command_line_check.h"
#include "cli/env_command.h"
#include "cli/run_config.h"
#include "cli/standard_output.h"
#include "cli/text_command.h"
#include "cli/text_parse_command.h"
#include "cli/text_render_command.h"

namespace stoker {

const char* const kVersion = STOKER_VERSION;

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
  add_output_file(verb, "--json", arguments.json, "Write the printed figures to this file too");
}

void add_generate(CLI::App& verb, GenerateArguments& arguments) {
  verb.add_option("MODEL", arguments.model, "Model directory or GGUF file")->required();
  verb.add_option("--prompt", arguments.prompt, "One user message; without it, a chat on standard input");
  verb.add_option("--system", arguments.system, "System message");
  verb.add_option("--chat-template", arguments.chat_template,
                  "A Jinja file, or chatml, in place of the model's own");
  verb.add_option("--compute-type", arguments.compute_type,
                  "float32, or bfloat16: half the memory, faster on large models");
  verb.add_option("--temperature", arguments.temperature, "0 is greedy");
  verb.add_option("--top-p", arguments.top_p, "Nucleus mass, 1 is off");
  verb.add_option("--top-k", arguments.top_k, "Keep the k likeliest, 0 is off")->check(whole_number(0));
  verb.add_option("--min-p", arguments.min_p, "Drop tokens under this share of the likeliest, 0 is off");
  verb.add_option("--repetition-penalty", arguments.repetition_penalty,
                  "Divides the logits of tokens in the context, 1 is off");
  verb.add_option("--presence-penalty", arguments.presence_penalty,
                  "Taken off the logits of tokens that were sampled, 0 is off");
  verb.add_option("--frequency-penalty", arguments.frequency_penalty, "The same for each time, 0 is off");
  verb.add_option("--logit-bias", arguments.logit_biases, "ID=NUMBER: added to the logit of a token")
      ->allow_extra_args(false);
  verb.add_option("--forbid", arguments.forbidden_tokens, "Token ids that are never sampled")
      ->allow_extra_args(false);
  verb.add_option(
      "--batch", arguments.batch,
      "JSON Lines with \"prompt\", \"messages\" or \"tokens\", answered side by side, an object a "
      "line; - is standard input");
  verb.add_option("--top-log-probabilities", arguments.top_log_probabilities,
                  "Likeliest tokens to list with each token of a batch")
      ->check(whole_number(0));
  verb.add_option("--max-tokens", arguments.max_tokens, "Longest answer, tokens")->check(whole_number(1));
  verb.add_option("--samples", arguments.samples, "Answers to the prompt")->check(whole_number(1));
  verb.add_option("--seed", arguments.seed, "Seed of the random streams")->check(whole_number(0));
  verb.add_option("--threads", arguments.threads, "Compute threads, 0 is one a core")
      ->check(whole_number(0, kMostThreads));
}

void add_score(CLI::App& verb, ScoreArguments& arguments) {
  verb.add_option("MODEL", arguments.model, "Model directory or GGUF file")->required();
  verb.add_option("FILE", arguments.input, "Input; standard input without it");
  verb.add_option("--chat-template", arguments.chat_template,
                  "A Jinja file, or chatml, in place of the model's own");
  verb.add_option("--compute-type", arguments.compute_type, "float32 or bfloat16");
  verb.add_option("--temperature", arguments.temperature, "Logits are divided by it");
  verb.add_option("--threads", arguments.threads, "Compute threads, 0 is one a core")
      ->check(whole_number(0, kMostThreads));
}

void add_episodes(CLI::App& verb, EpisodesArguments& arguments) {
  verb.add_option("RUN", arguments.run_folder, "Run folder")->required();
  verb.add_option("ID", arguments.id, "Show this episode: TASK.SAMPLE, as listed");
  verb.add_option("--purpose", arguments.purpose, "Only 'train' or an evaluation, as listed");
  verb.add_option("--limit", arguments.limit, "Longest list")->check(whole_number(1));
  verb.add_flag("--tokens", arguments.tokens, "Show each token with mask, log-probability and version");
}

void add_text_parse(CLI::App& text, TextParseArguments& arguments,
                    std::function<int(InterruptWatch&)>& chosen) {
  auto* verb = text.add_subcommand(
      "parse", "Turns to reasoning, content and tool calls: an object with \"text\" a line in and out");
  verb->add_option("--format", arguments.format, "Tool-call format; 'list' names them")->required();
  verb->add_option("FILE", arguments.input, "Input; standard input without it");
  verb->add_flag("--stream", arguments.stream, "Feed byte by byte and show what was announced");
  verb->callback([&] { chosen = [&](InterruptWatch&) { return run_text_parse(arguments); }; });
}

void add_text_encode(CLI::App& text, TextEncodeArguments& arguments,
                     std::function<int(InterruptWatch&)>& chosen) {
  auto* verb =
      text.add_subcommand("encode", "Texts to token ids: a JSON string a line in, an object a line out");
  verb->add_option(
          "--tokenizer", arguments.tokenizer,
          "tokenizer.json, tokenizer.model, .tiktoken or .gguf file, or the directory that holds one")
      ->required();
  verb->add_option("FILE", arguments.input, "Input; standard input without it");
  verb->add_option("--special", arguments.special,
                   "Special tokens in the text: 'text' (default) or 'control'");
  verb->add_flag("--add-bos", arguments.add_bos,
                 "Put the tokens around each text that the model's makers put there");
  verb->add_flag("--raw", arguments.raw, "The whole input is one text");
  verb->callback([&] { chosen = [&](InterruptWatch&) { return run_text_encode(arguments); }; });
}

void add_text_decode(CLI::App& text, TextDecodeArguments& arguments,
                     std::function<int(InterruptWatch&)>& chosen) {
  auto* verb =
      text.add_subcommand("decode", "Token ids to texts: a JSON list a line in, an object a line out");
  verb->add_option(
          "--tokenizer", arguments.tokenizer,
          "tokenizer.json, tokenizer.model, .tiktoken or .gguf file, or the directory that holds one")
      ->required();
  verb->add_option("FILE", arguments.input, "Input; standard input without it");
  verb->add_flag("--skip-special", arguments.skip_special, "Leave out special tokens");
  verb->add_flag("--stream", arguments.stream, "Also the text that each id releases");
  verb->callback([&] { chosen = [&](InterruptWatch&) { return run_text_decode(arguments); }; });
}

void add_text_render(CLI::App& text, TextRenderArguments& arguments,
                     std::function<int(InterruptWatch&)>& chosen) {
  auto add_options = [&](CLI::App& verb) {
    verb.add_option("--template", arguments.chat_template,
                    "A Jinja file, a JSON file with \"chat_template\", a model directory or a GGUF file")
        ->required();
    verb.add_option(
        "--tokenizer", arguments.tokenizer,
        "tokenizer.json, tokenizer.model, .tiktoken or .gguf file, or the directory that holds one");
    verb.add_option("--date", arguments.date, "The day that strftime_now tells, 2024-07-26 without it");
    verb.add_option("FILE", arguments.input, "Input; standard input without it");
  };
  const std::string wrong_rows = ". A wrong row gives an error, and exit status 2 when all are read";
  auto* render =
      text.add_subcommand("render", "Messages to text and tokens: an object a line in and out" + wrong_rows);
  add_options(*render);
  render->callback([&] { chosen = [&](InterruptWatch&) { return run_text_render(arguments); }; });
  auto* bridge = text.add_subcommand(
      "bridge", "What new messages add to the tokens so far: an object a line in and out" + wrong_rows);
  add_options(*bridge);
  bridge->callback([&] { chosen = [&](InterruptWatch&) { return run_text_bridge(arguments); }; });
}

// The parsed command line: what each verb was given, and the verb that was chosen.
struct Invocation {
  Verbosity verbosity;
  InitArguments init;
  RunFileArguments run;
  GenerateArguments generate;
  ScoreArguments score;
  EpisodesArguments episodes;
  std::filesystem::path replay_folder;
  TraceSummaryArguments trace_summary;
  TextRenderArguments text_render;
  SimulateArguments simulate;
  BenchAsyncArguments bench_async;
  TextParseArguments text_parse;
  TextEncodeArguments text_encode;
  TextDecodeArguments text_decode;
  EnvCheckArguments env_check;
  EnvServeArguments env_serve;
  std::filesystem::path doctor_model;
  std::function<int(InterruptWatch&)> chosen;
};

void add_model_verbs(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand(
      "init", "Write a fresh model directory: config.json, tokenizer.json, model.safetensors");
  verb->add_option("DIRECTORY", invocation.init.directory, "Where the model goes")->required();
  verb->add_option("key=value", invocation.init.assignments,
                   "For example size=1M, hidden_size=128 or seed=2");
  verb->add_flag("--overwrite", invocation.init.overwrite, "Replace a model directory");
  verb->callback([&] { invocation.chosen = [&](InterruptWatch&) { return run_init(invocation.init); }; });

  verb = app.add_subcommand("generate", "Chat with a model, or answer one prompt");
  add_generate(*verb, invocation.generate);
  verb->callback([&] {
    invocation.chosen = [&](InterruptWatch& interrupts) {
      return run_generate(invocation.generate, interrupts);
    };
  });

  verb = app.add_subcommand("score",
                            "Log-probabilities of given tokens: an object with \"text\", \"prompt\" and "
                            "\"completion\", \"messages\" or \"tokens\" a line in, an object a line out");
  add_score(*verb, invocation.score);
  verb->callback([&] {
    invocation.chosen = [&](InterruptWatch& interrupts) { return run_score(invocation.score, interrupts); };
  });
}

void add_run_verbs(CLI::App& app, Invocation& invocation) {
  struct RunVerb {
    const char* name;
    const char* description;
    int (*run)(const RunFileArguments&, InterruptWatch&);
    bool resumes;
  };
  for (RunVerb of : {RunVerb{"sft", "Supervised fine-tuning on conversations", run_sft, true},
                     RunVerb{"train", "Reinforcement learning", run_train, true},
                     RunVerb{"eval", "Evaluate a model on held-out tasks", run_eval, false}}) {
    auto* verb = app.add_subcommand(of.name, of.description);
    add_run_file(*verb, invocation.run);
    auto* overwrite =
        verb->add_flag("--overwrite", invocation.run.overwrite, "Replace the run in the run folder");
    if (of.resumes) {
      verb->add_flag("--resume", invocation.run.resume, "Go on with the run in the run folder")
          ->excludes(overwrite);
    }
    verb->callback([&invocation, of] {
      invocation.chosen = [&invocation, of](InterruptWatch& interrupts) {
        return of.run(invocation.run, interrupts);
      };
    });
  }
}

void add_looking_verbs(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("episodes", "List the episodes of a run, or show one");
  add_episodes(*verb, invocation.episodes);
  verb->callback(
      [&] { invocation.chosen = [&](InterruptWatch&) { return run_episodes(invocation.episodes); }; });

  verb = app.add_subcommand("replay", "Take every decision of a run again from its event log and compare");
  verb->add_option("RUN", invocation.replay_folder, "Run folder")->required();
  verb->callback(
      [&] { invocation.chosen = [&](InterruptWatch&) { return run_replay(invocation.replay_folder); }; });

  auto* trace = app.add_subcommand("trace", "Look at the trace of a run");
  trace->require_subcommand(1);
  verb = trace->add_subcommand("summary", "Where the time of a run went, and what it is short of");
  verb->add_option("RUN", invocation.trace_summary.run_folder, "Run folder")->required();
  add_output_file(*verb, "--json", invocation.trace_summary.json, "Write the figures to this file too");
  verb->callback([&] {
    invocation.chosen = [&](InterruptWatch&) { return run_trace_summary(invocation.trace_summary); };
  });

  verb =
      app.add_subcommand("doctor", "What this machine has: instruction set, memory, sandbox means, versions");
  verb->add_option("MODEL", invocation.doctor_model,
                   "A model directory or GGUF file: say what it is and read its weights");
  verb->callback(
      [&] { invocation.chosen = [&](InterruptWatch&) { return run_doctor(invocation.doctor_model); }; });

  verb = app.add_subcommand("keys", "Print every key of a run file as Markdown");
  verb->callback([&] { invocation.chosen = [](InterruptWatch&) { return run_keys(); }; });
}

void add_bench_async(CLI::App& bench, Invocation& invocation) {
  BenchAsyncArguments& given = invocation.bench_async;
  auto* verb = bench.add_subcommand(
      "async", "Synchronous against asynchronous training, on a virtual clock or, with --real, in real runs");
  auto* regimes =
      verb->add_option("--regimes", given.regimes, "R1 bound by latency, R2 by the trainer, R3 by generation")
          ->check(CLI::IsMember({"R1", "R2", "R3"}));
  verb->add_option("--steps", given.steps,
                   "Steps of each run: 230 on the virtual clock, 30 of them warm-up; 30 in real runs")
      ->check(whole_number(1, int64_t{1} << 32));
  verb->add_option("--seeds", given.seeds, "Seeds, the same for every arm")->check(whole_number(1, 10000));
  add_output_file(*verb, "--json", given.json, "Write the figures to this file too");
  add_output_file(*verb, "--markdown", given.markdown, "Write the tables to this file too");
  auto* depths = verb->add_flag("--depths", given.depths,
                                "Every fixed depth from 0 to 8 against the one that a run finds by itself");
  auto* caps = verb->add_flag("--caps", given.caps,
                              "Depth 4 under no cap on staleness and under tight ones, for every action")
                   ->excludes(depths);
  auto* controls = verb->add_flag("--controls", given.controls, "The controls of the protocol, C1 to C6")
                       ->excludes(depths)
                       ->excludes(caps);
  auto* agreement =
      verb->add_flag(
              "--agreement", given.agreement,
              "The controller against the plain model of the protocol, and that against its predictions")
          ->excludes(depths)
          ->excludes(caps)
          ->excludes(controls);
  auto* real = verb->add_flag("--real", given.real, "Train with the real engine and learner")
                   ->excludes(regimes)
                   ->excludes(depths)
                   ->excludes(caps)
                   ->excludes(controls)
                   ->excludes(agreement);
  verb->add_option("--output", given.output, "Folder of the real runs; finished ones in it are kept")
      ->needs(real);
  verb->add_option("--recipe", given.recipe,
                   "Folder with run.toml, and form.toml and habits.toml of the warm-up")
      ->needs(real);
  verb->add_option("--model", given.model, "A warmed-up model to start from, in place of the warm-up")
      ->needs(real);
  verb->add_option("--latency-ratio", given.latency_ratio,
                   "Mean tool time over mean generation time of an episode")
      ->check(CLI::PositiveNumber)
      ->needs(real);
  verb->add_option("--target", given.target, "Success whose time is taken")
      ->check(CLI::Range(0.0, 1.0))
      ->needs(real);
  verb->add_option("key=value", given.assignments, "Overrides of the run file for every training run")
      ->needs(real);
  verb->callback([&] {
    invocation.chosen = [&](InterruptWatch& interrupts) {
      interrupts.end_at_first();
      return run_bench_async(given);
    };
  });
}

void add_simulation_verbs(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("simulate", "Play a training run on a virtual clock, in seconds for hours");
  verb->add_option("SCENARIO.toml", invocation.simulate.scenario, "Scenario; without it, the defaults");
  verb->add_option("key=value", invocation.simulate.assignments,
                   "Overrides of the scenario, for example max_ahead=2 law.kind=pareto");
  add_output_file(*verb, "--json", invocation.simulate.json, "Write the printed figures to this file too");
  verb->callback([&] {
    SimulateArguments& given = invocation.simulate;
    if (given.scenario.string().find('=') != std::string::npos) {  // an override, and no file
      given.assignments.insert(given.assignments.begin(), given.scenario.string());
      given.scenario.clear();
    }
    invocation.chosen = [&](InterruptWatch& interrupts) {
      interrupts.end_at_first();
      return run_simulate(given);
    };
  });

  auto* bench = app.add_subcommand("bench", "Benchmarks of training set-ups");
  bench->require_subcommand(1);
  add_bench_async(*bench, invocation);
}

void add_text_verbs(CLI::App& app, Invocation& invocation) {
  auto* text = app.add_subcommand("text", "Look at the text layer: tokens, templates, tool calls");
  text->require_subcommand(1);
  add_text_parse(*text, invocation.text_parse, invocation.chosen);
  add_text_encode(*text, invocation.text_encode, invocation.chosen);
  add_text_decode(*text, invocation.text_decode, invocation.chosen);
  add_text_render(*text, invocation.text_render, invocation.chosen);
}

void add_environment_verbs(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("env", "Check the environment of a run file, or serve a native one");
  verb->require_subcommand(1);
  auto* check = verb->add_subcommand(
      "check", "Play some episodes with a random policy and say what would break in training");
  add_run_file(*check, invocation.env_check.run);
  check->add_option("--episodes", invocation.env_check.episodes, "Tasks that are played, each twice")
      ->check(whole_number(1));
  check->callback([&] {
    invocation.chosen = [&](InterruptWatch& interrupts) {
      return run_env_check(invocation.env_check, interrupts);
    };
  });
  auto* serve = verb->add_subcommand(
      "serve", "Serve a native environment over docs/protocol.md on standard input and output");
  serve->add_option("NAME", invocation.env_serve.name, "Which environment")->required();
  serve->add_option("key=value", invocation.env_serve.assignments, "Its options");
  serve->callback(
      [&] { invocation.chosen = [&](InterruptWatch&) { return run_env_serve(invocation.env_serve); }; });
}

// What a training run starts for itself; nobody else has a use for it.
void add_engine_verbs(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("engine", "Engines in processes of their own")->group("");
  verb->require_subcommand(1);
  verb->add_subcommand("serve", "Serve an engine to the process that started this one")->callback([&] {
    invocation.chosen = [](InterruptWatch& interrupts) {
      interrupts.end_at_first();
      return run_engine_serve();
    };
  });
}

int command_line(int argument_count, char** argument_values) {
  CLI::App app{"Stoker trains language-model agents by reinforcement learning."};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("stoker ") + kVersion);
  Invocation invocation;
  app.add_flag("--quiet", invocation.verbosity.quiet, "Only warnings, errors and results");
  app.add_flag("--verbose", invocation.verbosity.verbose, "Also what helps to find a fault");
  app.add_flag("--log-json", invocation.verbosity.json, "Log lines as JSON objects");
  app.fallthrough();
  add_model_verbs(app, invocation);
  add_run_verbs(app, invocation);
  add_looking_verbs(app, invocation);
  add_simulation_verbs(app, invocation);
  add_text_verbs(app, invocation);
  add_environment_verbs(app, invocation);
  add_engine_verbs(app, invocation);

  refuse_empty_values(app, {"--prompt", "--system"});
  refuse_unknown_verb(app, argument_count, argument_values);
  try {
    app.parse(argument_count, argument_values);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return finish_output(app.exit(error));  // of --help and --version
    throw input_error(parse_error_sentence(app, error));
  }
  invocation.verbosity.apply();
  invocation.run.quiet = invocation.verbosity.quiet;
  InterruptWatch interrupts;
  return finish_output(invocation.chosen(interrupts));
}

// The exit status of what `command_line` threw, told in one sentence.
int status_of_failure(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    log_error("{}", error.what());
    return error.kind() == ErrorKind::kInput ? kExitWrongUse : kExitFailed;
  } catch (const Cancelled&) {
    log_info("Interrupted before the run began; nothing was written.");
    return kExitInterrupted;
  } catch (const std::bad_alloc&) {
    log_error(
        "Out of memory: this machine has too little for the run; use a smaller model, engine.max_batch or "
        "engine.cache_megabytes.");
  } catch (const std::exception& error) {
    if (output_is_closed()) return kExitOutputClosed;  // fmt told of it
    log_error("{}",
              output_has_failed() ? kOutputFailure : fmt::format("Unexpected failure: {}", error.what()));
  }
  return kExitFailed;
}

}  // namespace

int run_command_line(int argument_count, char** argument_values) {
  // A write into a closed pipe, or past the limit of a file's size (ulimit -f), then fails with an errno.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  try {
    return command_line(argument_count, argument_values);
  } catch (...) {
    return status_of_failure(std::current_exception());
  }
}

}  // namespace stoker
