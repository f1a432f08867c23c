#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "environment/command/command_options.h"
#include "environment/command/worker_pool.h"
#include "environment/registry.h"

namespace stoker {

// `tools.command`: tools from outside for any environment.
struct ToolsCommandOptions {
  CommandOptions process;
  std::vector<std::string> tools;

  template <typename V>
  void for_each_field(V& visit) {
    process.for_each_field(visit);
    visit("tools", tools, "Which of the tools that the command lists; empty: all.");
  }
};
struct ToolsOptions {
  ToolsCommandOptions command;

  template <typename V>
  void for_each_field(V& visit) {
    visit.section("command", command, "Tools in processes that speak docs/protocol.md.");
  }
};

// `reward.command`: rewards from outside beside those of the environment.
struct RewardCommandOptions {
  CommandOptions process;
  std::vector<std::string> rewards;
  std::vector<double> weights;
  std::string on_give_up = "end_run";

  template <typename V>
  void for_each_field(V& visit) {
    process.for_each_field(visit);
    visit("rewards", rewards, "Which of the rewards that the command lists, in this order; empty: all.");
    visit("weights", weights, "One weight for each of them; empty: all 1.");
    visit("on_give_up", on_give_up,
          "When the processes are given up: end_run, or drop: go on without these rewards.",
          one_of({"end_run", "drop"}));
  }
};
struct RewardOptions {
  bool native = true;
  std::vector<double> native_weights;
  RewardCommandOptions command;

  template <typename V>
  void for_each_field(V& visit) {
    visit("native", native, "Whether the environment's own rewards count beside those of reward.command.");
    visit("native_weights", native_weights,
          "One weight for each of the environment's rewards; empty: all 1.");
    visit.section("command", command, "Rewards in processes that speak docs/protocol.md.");
  }
};

// `inner` with what the two sections add: tools to its episodes, rewards to its rewards (its own come first).
// Gives `inner` itself when both name no command. Throws Error(kInput) for options that do not fit.
std::unique_ptr<EnvironmentKind> with_outside(std::unique_ptr<EnvironmentKind> inner,
                                              const ToolsOptions& tools, const RewardOptions& reward,
                                              WorkerPool::MakeLauncher make_launcher = {});

}  // namespace stoker
