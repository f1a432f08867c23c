#pragma once

#include <string>
#include <vector>

#include "simulation/scenario.h"

namespace stoker {

// The protocol of `stoker bench async`: laws of episode length, balances between trainer and engine, and ways
// to run the controller.

// A law with the name of its column.
struct NamedLaw {
  std::string name;
  LatencyLaw law;
  double growth = 1;
  double tool_failure_share = 0;

  Scenario apply(Scenario scenario) const;
};
std::vector<NamedLaw> protocol_laws();
// Those and the rest of the protocol's: more exponents, failing tools, lengths that drift.
std::vector<NamedLaw> all_laws();

// R1: bound by latency (60 tokens/s a sequence, 30 s of tools, 60 s of training). R2: bound by the trainer
// (200 tokens/s, 5 s). R3: by generation (R2 with 15 s of training). An unknown name throws Error(kInput).
Scenario regime(const std::string& name);

// A way to run, with the name of its row: changes a regime's scenario.
struct Arm {
  std::string name;
  Scenario (*apply)(Scenario scenario);
};
// The first is the baseline of every ratio: colocated synchronous training, in which both phases have the
// whole machine (half the training time, twice the engine, 15 s to hand it over).
std::vector<Arm> protocol_arms();

// The most depth that the adaptive arm may find, and the comparison tries.
constexpr int kMostDepth = 8;
// Depth is found, up to kMostDepth.
Scenario adaptive(Scenario scenario);

// Depth 4 under caps on staleness: under one that nothing reaches (256 versions), and under three and six
// times the depth with each action. The first is the one without a cap.
std::vector<Arm> capped_arms();

// What adaptive depth is measured by: the smallest fixed depth whose throughput is within `tolerance` of the
// largest over all of them. `throughputs`: by depth, from 0 on; not empty.
int64_t best_depth(const std::vector<double>& throughputs, double tolerance);

// Percentile bootstrap interval of the mean of paired ratios: 95 %, 2000 resamples, from a fixed seed.
struct Interval {
  double low = 0, mean = 0, high = 0;
};
Interval bootstrap_interval(const std::vector<double>& ratios);

}  // namespace stoker
