#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/interrupt.h"

namespace stoker {

extern const char* const kVersion;

// Exit statuses of the command line (DESIGN section 8).
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitWrongUse = 2;
inline constexpr int kExitInterrupted = 130;

// What every verb that takes a run file was given.
struct RunFileArguments {
  std::filesystem::path run_file;
  std::vector<std::string> assignments;  // key=value, in order
  bool dry_run = false;                  // print the resolved configuration and end
  bool resume = false;
  bool overwrite = false;
  bool quiet = false;             // no step lines, no progress
  std::filesystem::path program;  // whose verb serves engines in other processes; empty: this one
  std::filesystem::path json;     // figures go here too; empty: nowhere
};

struct InitArguments {
  std::filesystem::path directory;
  std::vector<std::string> assignments;
  bool overwrite = false;
};

struct EpisodesArguments {
  std::filesystem::path run_folder;
  std::string id;       // "17.3" or "17.3.1"; empty: list all
  std::string purpose;  // only this purpose; empty: all
  int64_t limit = 50;   // of the list
  bool tokens = false;  // show every token with mask, log-probability and version
};

struct GenerateArguments {
  std::filesystem::path model;
  std::string prompt;  // one user message; empty: a chat on the terminal or messages from standard input
  std::string system;
  std::string chat_template;  // a Jinja file or "chatml" in place of the model's own
  std::string compute_type = "float32";
  double temperature = 1.0;
  double top_p = 1.0;
  int top_k = 0;
  double min_p = 0;
  double repetition_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::vector<std::string> logit_biases;  // ID=NUMBER
  std::vector<int32_t> forbidden_tokens;
  int top_log_probabilities = 0;  // of a batch's answers
  std::filesystem::path batch;    // JSON Lines of prompts, "-" for standard input; empty: one or a chat
  int max_tokens = 256;
  int samples = 1;
  int64_t seed = 1;
  int threads = 0;
};

struct ScoreArguments {
  std::filesystem::path model;
  std::filesystem::path input;  // JSON Lines; empty: standard input
  std::string chat_template;    // as of GenerateArguments
  std::string compute_type = "float32";
  double temperature = 1.0;
  int threads = 0;
};

struct TraceSummaryArguments {
  std::filesystem::path run_folder;
  std::filesystem::path json;  // figures go here too; empty: nowhere
};

struct SimulateArguments {
  std::filesystem::path scenario;        // TOML file; empty: the defaults
  std::vector<std::string> assignments;  // key=value, in order
  std::filesystem::path json;            // figures go here too; empty: nowhere
};

struct BenchAsyncArguments {
  std::vector<std::string> regimes = {"R1", "R2", "R3"};
  int64_t steps = 0;  // of each run; 0: the default of its mode
  int64_t seeds = 5;
  std::filesystem::path json;      // figures go here too; empty: nowhere
  std::filesystem::path markdown;  // the tables go here too; empty: nowhere

  // In place of the table of arms:
  bool depths = false;     // the comparison of depths
  bool caps = false;       // what the cap on staleness costs
  bool controls = false;   // the controls of the protocol
  bool agreement = false;  // the controller against the model of the protocol

  // Of real runs.
  bool real = false;
  std::filesystem::path recipe = "examples/calculator";  // folder with run.toml, form.toml and habits.toml
  std::filesystem::path model;  // what every seed starts from; empty: one is warmed up for each
  std::filesystem::path output = "runs/bench-async";
  double latency_ratio = 10;             // mean tool time over mean generation time of an episode
  double target = 0.8;                   // success to be reached
  std::vector<std::string> assignments;  // key=value for every training run, in order
  std::filesystem::path program;         // whose verbs are run; empty: this one
};

// Each runs one verb and returns the exit status; wrong input and failures are thrown as Error.
int run_init(const InitArguments& arguments);
int run_sft(const RunFileArguments& arguments, InterruptWatch& interrupts);
int run_train(const RunFileArguments& arguments, InterruptWatch& interrupts);
int run_eval(const RunFileArguments& arguments, InterruptWatch& interrupts);
int run_score(const ScoreArguments& arguments, InterruptWatch& interrupts);
int run_generate(const GenerateArguments& arguments, InterruptWatch& interrupts);
int run_episodes(const EpisodesArguments& arguments);
// Serves an engine to the parent process, over engine/engine_protocol.h on standard input and output.
int run_engine_serve();
int run_replay(const std::filesystem::path& run_folder);
int run_trace_summary(const TraceSummaryArguments& arguments);
int run_simulate(const SimulateArguments& arguments);
int run_bench_async(const BenchAsyncArguments& arguments);
// `model`: a model directory or GGUF file to look at too; empty: none.
int run_doctor(const std::filesystem::path& model);
int run_keys();

}  // namespace stoker
