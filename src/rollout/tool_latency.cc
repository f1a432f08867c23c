#include "rollout/tool_latency.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "async/sleep.h"
#include "base/random.h"

namespace stoker {
namespace {

// What the calls of one episode wait for, one after the other.
struct EpisodeWaits {
  ToolLatency latency;
  uint64_t run_seed = 0;
  EpisodeId episode;
  uint32_t calls = 0;

  double next_seconds() { return tool_latency_seconds(latency, run_seed, episode, calls++); }
};

class SlowTool final : public Tool {
 public:
  SlowTool(std::shared_ptr<Tool> tool, std::shared_ptr<EpisodeWaits> waits)
      : tool_(std::move(tool)), waits_(std::move(waits)) {}

  const ToolSchema& schema() const override { return tool_->schema(); }
  Task<Result<ToolResult>> call(const Json& arguments) override {
    co_await sleep_for(from_seconds(waits_->next_seconds()));
    co_return co_await tool_->call(arguments);
  }

 private:
  std::shared_ptr<Tool> tool_;
  std::shared_ptr<EpisodeWaits> waits_;
};

}  // namespace

double tool_latency_seconds(const ToolLatency& latency, uint64_t run_seed, const EpisodeId& episode,
                            uint32_t call) {
  // Turn 0 of the first member's stream is what its environment is reset with.
  RandomStream random({.run_seed = run_seed,
                       .purpose = RandomPurpose::kEnvironment,
                       .task_ordinal = episode.task_ordinal,
                       .sample = episode.sample,
                       .attempt = episode.attempt,
                       .turn = call + 1});
  const double scale = draw_scale(latency.law, [&random] { return random.uniform(); });
  return latency.mean_seconds * cut_scale(latency.law, scale);
}

Tools with_latency(Tools tools, const ToolLatency& latency, uint64_t run_seed, const EpisodeId& episode) {
  if (latency.mean_seconds == 0) return tools;
  const auto waits = std::make_shared<EpisodeWaits>(EpisodeWaits{latency, run_seed, episode});
  for (std::shared_ptr<Tool>& tool : tools) tool = std::make_shared<SlowTool>(std::move(tool), waits);
  return tools;
}

}  // namespace stoker
