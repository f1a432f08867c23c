#pragma once

#include <string>
#include <vector>

#include "base/figure_report.h"
#include "base/json.h"
#include "base/random.h"
#include "cli/interrupt.h"
#include "cli/run_config.h"

namespace stoker {

// What 'stoker env check' found.
struct EnvironmentReport {
  std::vector<std::string> facts;             // what was seen
  std::vector<std::string> problems;          // what would break in training, each with its remedy
  std::vector<FigureReport::Figure> figures;  // latencies

  std::string text() const;
};

// Starts what the run file names and plays `episodes` tasks of its environment, each twice with the same
// seed, with a random policy and the run file's limits; no model is needed. Throws Error(kInput) for what
// cannot be started or read at all, and Cancelled when interrupted.
EnvironmentReport check_environment_of(const RunConfig& config, int episodes, InterruptWatch& interrupts);

// A value that fits a JSON Schema, drawn at random; its best for schemas that it does not see through.
Json random_value(const Json& schema, RandomStream& random, int depth = 0);

}  // namespace stoker
