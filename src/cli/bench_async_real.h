#pragma once

#include "cli/command.h"

namespace stoker {

// `stoker bench async --real`: for each seed a warmed-up model, then one training run an arm from it,
// synchronous and asynchronous (two batches ahead), with tools that answer at once and with slow ones. The
// mean time of a slow call is the given multiple of what an episode of the synchronous run without latency
// spent in generation. Each run is a process of its own, so that its peak memory is its own, and evaluates
// only once it has ended. What is in the output folder is kept, and only what is missing is run.
//
// The folder: bench.json (the settings), result.json, table.md, seed-N/ with the warm-up and a run folder an
// arm, each with its result.json.
int run_bench_async_real(const BenchAsyncArguments& arguments);

}  // namespace stoker
