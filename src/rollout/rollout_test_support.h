#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "async/cancellation.h"
#include "async/event.h"
#include "async/sleep.h"
#include "engine/scripted_engine.h"
#include "environment/testing/faulty_environment.h"
#include "rollout/agent.h"
#include "rollout/episode.h"
#include "text/chatml_renderer.h"
#include "text/testing/tokenizers.h"

namespace stoker {

enum class ToolBehaviour { kAnswer, kSleep, kHang, kHangHard, kThrow, kThrowForeign, kFail, kError };

// A tool with one integer argument "x" that behaves as told, and counts.
class TestTool final : public Tool {
 public:
  explicit TestTool(std::string name, ToolBehaviour behaviour = ToolBehaviour::kAnswer)
      : behaviour(behaviour) {
    schema_.name = std::move(name);
    schema_.parameters =
        Json::object({{"type", "object"},
                      {"properties", Json::object({{"x", Json::object({{"type", "integer"}})}})},
                      {"required", Json::array({"x"})}});
  }
  const ToolSchema& schema() const override { return schema_; }
  Task<Result<ToolResult>> call(const Json& arguments) override {
    ++calls;
    ++running;
    most_running = std::max(most_running, running);
    Running guard{running};
    switch (behaviour) {
      case ToolBehaviour::kAnswer:
        break;
      case ToolBehaviour::kSleep:
        co_await sleep_for(std::chrono::seconds(10));
        break;
      case ToolBehaviour::kHang: {
        Event never("never");
        co_await never.wait();
        break;
      }
      case ToolBehaviour::kHangHard:
        co_await shielded(sleep_for(std::chrono::hours(1000)));
        break;
      case ToolBehaviour::kThrow:
        throw std::runtime_error("planted");
      case ToolBehaviour::kThrowForeign:
        throw 42;
      case ToolBehaviour::kFail:
        co_return Failure{FailureClass::kTool, "planted", "planted"};
      case ToolBehaviour::kError:
        co_return ToolResult{.content = "error: planted", .is_error = true};
    }
    if (!result.empty()) co_return ToolResult{.content = result};
    co_return ToolResult{.content = schema_.name + " got " + arguments.at("x").dump()};
  }

  ToolBehaviour behaviour;
  std::string result;
  int32_t calls = 0;
  int32_t running = 0;
  int32_t most_running = 0;

 private:
  struct Running {
    int32_t& count;
    ~Running() { --count; }
  };
  ToolSchema schema_;
};

inline std::string call_text(const std::string& name, int x) {
  return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": {\"x\": " + std::to_string(x) +
         "}}\n</tool_call>";
}

// Everything that an episode needs around a scripted policy: `policy` gives the text of a turn, to which the
// end token is added, or a whole answer.
class EpisodeRig {
  std::vector<std::unique_ptr<Executor>> executors_;  // first: destroyed last

 public:
  using Policy = std::function<std::string(const GenerateRequest& request)>;

  EpisodeRig(const EnvironmentKind& environment_kind, Policy given, EpisodeSettings episode_settings = {})
      : policy(std::move(given)), kind(environment_kind), settings(episode_settings) {}

  // Keeps the executor that the rig is used on until runner and agent are gone.
  Executor& own(std::unique_ptr<Executor> executor) {
    executors_.push_back(std::move(executor));
    return *executors_.back();
  }

  EpisodeRunner& runner() {
    if (!runner_) {
      runner_ = std::make_unique<EpisodeRunner>(
          settings, engine, kind, *agent, tokenizer, other_renderer != nullptr ? *other_renderer : renderer,
          *blocking, rewards.empty() ? kind.rewards() : std::move(rewards), weights);
    }
    return *runner_;
  }

  ScriptedAnswer answer(const GenerateRequest& request) {
    requests.push_back(request);
    if (raw) return raw(request);
    ScriptedAnswer answer{.tokens = tokenizer->encode_with_special(policy(request) + "<|im_end|>"),
                          .latency = latency};
    // Different for every draw, so that a wrong stream shows.
    for (size_t i = 0; i < answer.tokens.size(); ++i) {
      answer.log_probabilities.push_back(
          static_cast<float>(-random_uniform(request.stream, request.first_position + i)));
    }
    return answer;
  }

  Policy policy;
  std::function<ScriptedAnswer(const GenerateRequest&)> raw;  // instead of `policy`
  const EnvironmentKind& kind;
  EpisodeSettings settings;
  Duration latency{0};
  TokenizerPtr tokenizer = demo_tokenizer();
  ChatMlRenderer renderer{tokenizer, {.list_tools = false}};
  const Renderer* other_renderer = nullptr;
  std::unique_ptr<Pool> blocking = std::make_unique<Pool>();
  std::unique_ptr<Agent> agent = make_tool_agent({});
  std::vector<std::unique_ptr<Reward>> rewards;
  std::vector<double> weights;
  std::vector<GenerateRequest> requests;
  ScriptedEngine engine{[this](const GenerateRequest& request) { return answer(request); }};

 private:
  std::unique_ptr<EpisodeRunner> runner_;
};

}  // namespace stoker
