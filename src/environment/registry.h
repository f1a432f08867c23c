#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "environment/environment.h"
#include "environment/task_source.h"

namespace stoker {

// A demonstration for supervised warm-up: a whole conversation, assistant turns included.
struct Demonstration {
  std::vector<Message> messages;
};

// A kind of environment: makes episodes' environments, its tasks and its rewards from the `environment`
// section of a run file. Adding one is a folder with a header, a source and a test, and one line in
// registry.cc.
class EnvironmentKind {
 public:
  virtual ~EnvironmentKind() = default;
  // Starts what this kind needs beside memory (processes), on the loop that will run its episodes and before
  // anything else is asked of it. Error(kInput) when that cannot be used.
  virtual Task<> open();
  // What this kind holds although no episode is open, and what it offers (snapshots) and does not keep, as
  // sentences with their remedies: for 'stoker env check'.
  virtual Task<std::vector<std::string>> check_at_rest();
  // `blocking` outlives the environment: where it and its tools run what blocks (co_await blocking.run(...)).
  // A call that never returns may be abandoned there, so the function must own whatever it touches.
  virtual std::unique_ptr<Environment> make(Pool& blocking) const = 0;
  virtual std::unique_ptr<TaskSource> training_tasks(uint64_t seed) const = 0;
  // Held-out tasks: none of them occurs in training_tasks or demonstrations.
  virtual std::unique_ptr<TaskSource> evaluation_tasks() const = 0;
  virtual std::vector<std::unique_ptr<Reward>> rewards() const = 0;
  // The weights of rewards() where the run file gives none; empty: all 1.
  virtual std::vector<double> reward_weights() const { return {}; }
  // The i-th demonstration of supervised warm-up; empty when this kind has none.
  virtual std::optional<Demonstration> demonstration(uint64_t index, uint64_t seed) const {
    return std::nullopt;
  }
};

// `options` is the run file's environment table as JSON; unknown or wrong keys throw Error(kInput) with the
// nearest known name. An unknown kind throws Error(kInput) that lists the known ones.
std::unique_ptr<EnvironmentKind> make_environment_kind(const std::string& name, const Json& options);
std::vector<std::string> environment_kind_names();
// The options of a kind as Markdown: key, type, default, what is allowed and what it means.
std::string environment_kind_documentation(const std::string& name);

}  // namespace stoker
