#include "cli/run_file.h"

#include <fmt/core.h>

#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

namespace stoker {
namespace {

void check_engines(const EngineConfig& engine, const ConfigReader& reader) {
  if (engine.child_processes > engine.replicas) {
    throw input_error(
        fmt::format("{} is {} and {} is {}: the processes are some of the replicas; raise the "
                    "second.",
                    reader.describe("engine.child_processes"), engine.child_processes,
                    reader.describe("engine.replicas"), engine.replicas));
  }
  if (engine.child_threads > 0 && engine.child_processes == 0) {
    throw input_error(fmt::format("{} is {}, but {} is 0: no process has them; leave the first out.",
                                  reader.describe("engine.child_threads"), engine.child_threads,
                                  reader.describe("engine.child_processes")));
  }
  const auto deadline = [&](const char* key, double value, double standard) {
    if (!engine.single() || value == standard) return;
    throw input_error(
        fmt::format("{} is {}, but the run's only engine is in its own process and has no such "
                    "deadline; raise engine.replicas or leave the key out.",
                    reader.describe(key), value));
  };
  deadline("engine.prepare_timeout_seconds", engine.prepare_timeout_seconds,
           EngineConfig().prepare_timeout_seconds);
  deadline("engine.commit_timeout_seconds", engine.commit_timeout_seconds,
           EngineConfig().commit_timeout_seconds);
}

void check_together(const RunConfig& config, const ConfigReader& reader) {
  if (config.output.empty()) {
    throw input_error(
        fmt::format("{} is empty; name the run folder with output=FOLDER, for example "
                    "output=runs/first.",
                    reader.describe("output")));
  }
  const RolloutConfig& rollout = config.rollout;
  if (rollout.max_concurrent_episodes < rollout.group_size) {
    throw input_error(fmt::format("{} is {} and {} is {}: no group could ever start; raise the first.",
                                  reader.describe("rollout.max_concurrent_episodes"),
                                  rollout.max_concurrent_episodes, reader.describe("rollout.group_size"),
                                  rollout.group_size));
  }
  if (rollout.mode == "async" && rollout.max_staleness < rollout.max_ahead) {
    throw input_error(
        fmt::format("{} is {} and {} is {}: groups would be dropped for a lag that dispatch aims at; raise "
                    "the first.",
                    reader.describe("rollout.max_staleness"), rollout.max_staleness,
                    reader.describe("rollout.max_ahead"), rollout.max_ahead));
  }
  if (rollout.extra_groups > 0 && (rollout.mode == "sync" || rollout.adaptive_depth)) {
    const char* other = rollout.adaptive_depth ? "rollout.adaptive_depth" : "rollout.mode";
    throw input_error(
        fmt::format("{} is {}, which has no place beside {}: set it to 0, or set rollout.mode to async and "
                    "rollout.adaptive_depth to false.",
                    reader.describe("rollout.extra_groups"), rollout.extra_groups, reader.describe(other)));
  }
  if (rollout.extra_groups > 0 && rollout.batch_order == "strict" && rollout.max_ahead == 0 &&
      rollout.max_staleness == 0) {
    throw input_error(fmt::format(
        "{} is {} and {} is strict, at rollout.max_ahead 0 and rollout.max_staleness 0: strict order "
        "trains the groups that were dispatched first, and the rest would be generated to be "
        "dropped; set the first to 0, or the second to oldest or completion.",
        reader.describe("rollout.extra_groups"), rollout.extra_groups,
        reader.describe("rollout.batch_order")));
  }
  if (rollout.adaptive_depth && (rollout.mode == "sync" || rollout.max_ahead < 2)) {
    throw input_error(
        fmt::format("{} is true, and there is nothing to find between 1 and the most that is allowed, by {} "
                    "= {} and {} = "
                    "{}: set it to false, or set rollout.mode to async and rollout.max_ahead to the largest "
                    "depth that is "
                    "acceptable, at least 2.",
                    reader.describe("rollout.adaptive_depth"), reader.describe("rollout.mode"), rollout.mode,
                    reader.describe("rollout.max_ahead"), rollout.max_ahead));
  }
  if (config.evaluate.temperatures.empty()) {
    throw input_error(fmt::format("{} is empty; give at least one, 0 for greedy.",
                                  reader.describe("evaluate.temperatures")));
  }
  std::set<std::string> names;
  for (double temperature : config.evaluate.temperatures) {
    if (names.insert(sampling_name(temperature)).second) continue;
    throw input_error(fmt::format("{} holds {:g} twice; each temperature is evaluated once.",
                                  reader.describe("evaluate.temperatures"), temperature));
  }
}

// A synchronous run has nothing ahead: the default follows the mode, and a setting that says otherwise is
// told.
void settle_mode(RunConfig& config, const ConfigReader& reader) {
  RolloutConfig& rollout = config.rollout;
  if (rollout.mode != "sync") return;
  const std::string described = reader.describe("rollout.max_ahead");
  if (described.ends_with("(default)")) {
    rollout.max_ahead = 0;
  } else if (rollout.max_ahead != 0) {
    log_warning(
        "{} is sync, so that {} = {} has no effect: dispatch does not run ahead. Set rollout.mode to async, "
        "or "
        "rollout.max_ahead to 0.",
        reader.describe("rollout.mode"), described, rollout.max_ahead);
  }
}

// The configuration with everything at its default that does not change what is computed: such keys may be
// others when a run is resumed.
RunConfig computing_part(RunConfig config) {
  const RunConfig standard;
  config.output.clear();
  config.threads = standard.threads;
  config.memory_megabytes = standard.memory_megabytes;
  config.recompute = standard.recompute;
  config.metrics_port = standard.metrics_port;
  config.engine.replicas = standard.engine.replicas;
  config.engine.child_processes = standard.engine.child_processes;
  config.engine.child_threads = standard.engine.child_threads;
  config.engine.prepare_timeout_seconds = standard.engine.prepare_timeout_seconds;
  config.engine.commit_timeout_seconds = standard.engine.commit_timeout_seconds;
  return config;
}

}  // namespace

std::string sampling_name(double temperature) {
  return temperature == 0 ? "greedy" : fmt::format("temperature_{:g}", temperature);
}

RunFile read_run_file(const RunFileArguments& arguments) {
  RunFile file;
  ConfigReader reader(file.config);
  reader.read_file(arguments.run_file);
  for (const std::string& assignment : arguments.assignments) reader.set(assignment);
  check_together(file.config, reader);
  check_engines(file.config.engine, reader);
  settle_mode(file.config, reader);
  file.resolved = reader.dump();

  RunConfig computing = computing_part(file.config);
  file.digest = digest_hex(ConfigReader(computing).dump());
  return file;
}

int run_keys() {
  RunConfig config;
  fmt::print("{}", ConfigReader(config).documentation());
  return kExitDone;
}

}  // namespace stoker
