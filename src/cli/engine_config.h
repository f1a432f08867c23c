#pragma once

#include <string>

#include "base/config.h"

namespace stoker {

// Of compute: more than any machine has use for.
constexpr int kMostThreads = 1024;

// The section [engine] of a run file; docs/engines.md.
struct EngineConfig {
  int max_batch = 256;
  int cache_megabytes = 512;
  int prefill_tokens = 512;
  bool prefix_cache = true;
  std::string cache_on_update = "keep";
  int replicas = 1;
  int child_processes = 0;
  int child_threads = 0;
  double prepare_timeout_seconds = 600;
  double commit_timeout_seconds = 60;

  // The run's one engine is in its own process; no publication has a second party.
  bool single() const { return replicas == 1 && child_processes == 0; }

  template <typename V>
  void for_each_field(V& visit) {
    visit("max_batch", max_batch, "Sequences that decode together.", at_least(1));
    visit("cache_megabytes", cache_megabytes, "Memory of the key-value cache.", at_least(1));
    visit("prefill_tokens", prefill_tokens,
          "Context tokens computed in one step beside the decoding sequences.", at_least(1));
    visit("prefix_cache", prefix_cache,
          "Share computed prompts between the samples of a group and between turns.");
    visit(
        "cache_on_update", cache_on_update,
        "What new weights do to the cache of turns in generation: keep it, and mark what is sampled over it "
        "as mixed, or recompute it, at the cost of their contexts' prefill.",
        one_of({"keep", "recompute"}));
    visit("replicas", replicas, "Engines among which the requests of a training run are shared.",
          between(1, 64));
    visit("child_processes", child_processes,
          "How many of the replicas are in processes of their own. One that ends, however, is replaced, and "
          "its requests go on from their last token.",
          between(0, 64));
    visit(
        "child_threads", child_threads,
        "Compute threads of each of these processes; 0: the run's threads divided by the processes and one. "
        "The run itself keeps all of its own.",
        between(0, kMostThreads));
    visit(
        "prepare_timeout_seconds", prepare_timeout_seconds,
        "Deadline of one replica to take new weights in, and of a process to begin to serve; past it, it is "
        "replaced.",
        above_or_infinite(0));
    visit("commit_timeout_seconds", commit_timeout_seconds,
          "Deadline of one replica to swap to the weights that it has taken in; past it, it is replaced.",
          above_or_infinite(0));
  }
};

}  // namespace stoker
