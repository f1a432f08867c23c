#include "calculator_world.h"

#include <time.h>

#include <utility>
#include <variant>

#include <fmt/core.h>

#include "base/error.h"
#include "environment/calculator/calculator.h"
#include "rollout/orchestrator.h"
#include "support.h"
#include "text/tokenizer_builder.h"

namespace stoker {
namespace {

// Asks one question, has the calculator, and is done with the first answer.
class CalculatorEnvironment final : public Environment {
 public:
  Task<Result<Observation>> reset(const TaskRow& task, uint64_t) override {
    Message question;
    question.content = task.fields.at("prompt").as_string();
    co_return Observation{.messages = {std::move(question)}};
  }
  Task<Result<Observation>> step(const Action&) override { co_return Observation{.done = true}; }
  Task<> close() override { co_return; }
  std::vector<Tool*> tools() override { return {&calculator_}; }

 private:
  CalculatorTool calculator_;
};

class OneQuestion final : public TaskSource {
 public:
  explicit OneQuestion(std::string question) : question_(std::move(question)) {}
  TaskRow task(uint64_t ordinal) const override {
    return {.id = fmt::format("{}", ordinal), .fields = Json::object({{"prompt", question_}})};
  }
  std::optional<uint64_t> epoch_size() const override { return std::nullopt; }

 private:
  std::string question_;
};

class OneReward final : public Reward {
 public:
  std::string name() const override { return "one"; }
  Task<Result<RewardResult>> score(const EpisodeView&) override {
    co_return RewardResult{.reward = 1, .success = true};
  }
};

class CalculatorKind final : public EnvironmentKind {
 public:
  explicit CalculatorKind(std::string question) : question_(std::move(question)) {}
  std::unique_ptr<Environment> make(Pool&) const override {
    return std::make_unique<CalculatorEnvironment>();
  }
  std::unique_ptr<TaskSource> training_tasks(uint64_t) const override {
    return std::make_unique<OneQuestion>(question_);
  }
  std::unique_ptr<TaskSource> evaluation_tasks() const override {
    return std::make_unique<OneQuestion>(question_);
  }
  std::vector<std::unique_ptr<Reward>> rewards() const override {
    std::vector<std::unique_ptr<Reward>> rewards;
    rewards.push_back(std::make_unique<OneReward>());
    return rewards;
  }

 private:
  std::string question_;
};

TokenizerPtr built_tokenizer() {
  return Tokenizer::from_json(build_tokenizer_json(builder_default_words()), "built");
}

std::string call_of(const std::string& expression) {
  return fmt::format(
      "<tool_call>\n{{\"name\": \"calculator\", \"arguments\": {{\"expression\": \"{}\"}}}}\n</tool_call>"
      "<|im_end|>",
      expression);
}

// `filler` as often as it takes `tokens_of` a text with it from what it has to `wanted` tokens: a token each.
template <typename TokensOf>
std::string filled(TokensOf tokens_of, int32_t wanted, char filler) {
  const int32_t least = tokens_of("");
  if (least >= wanted) throw internal_error(fmt::format("The benchmark's text has {} tokens.", least));
  std::string filling(static_cast<size_t>(wanted - least), filler);
  if (const int32_t size = tokens_of(filling); size != wanted) {
    throw internal_error(fmt::format("The benchmark's text has {} tokens instead of {}.", size, wanted));
  }
  return filling;
}

}  // namespace

CalculatorWorld::CalculatorWorld(CalculatorConversation conversation)
    : conversation_(std::move(conversation)),
      tokenizer_(built_tokenizer()),
      renderer_(tokenizer_, {.list_tools = false}),
      call_(tokenizer_->encode_with_special(call_of(conversation_.expression))),
      last_turn_(tokenizer_->encode_with_special(conversation_.answer + "<|im_end|>")),
      kind_(std::make_unique<CalculatorKind>(conversation_.question)),
      tasks_(kind_->training_tasks(0)),
      agent_(make_tool_agent({})) {}

ScriptedEngine CalculatorWorld::engine(Latency latency) const {
  return ScriptedEngine([this, latency = std::move(latency)](const GenerateRequest& request) {
    const bool is_last = request.stream.turn + 1 >= static_cast<uint32_t>(conversation_.turns);
    return ScriptedAnswer{.tokens = is_last ? last_turn_ : call_, .latency = latency(request.stream)};
  });
}

std::unique_ptr<EpisodeRunner> CalculatorWorld::runner(Engine& engine, Pool& blocking,
                                                       RunActivity* activity) const {
  return std::make_unique<EpisodeRunner>(EpisodeSettings{.activity = activity}, engine, *kind_, *agent_,
                                         tokenizer_, renderer_, blocking, kind_->rewards());
}

CalculatorConversation CalculatorWorld::of_size(int32_t turns, int32_t prompt_tokens, int32_t sampled_tokens,
                                                int32_t observed_tokens) {
  const TokenizerPtr tokenizer = built_tokenizer();
  const ChatMlRenderer renderer(tokenizer, {.list_tools = false});
  const auto count = [&](const std::string& text) {
    return static_cast<int32_t>(tokenizer->encode_with_special(text).size());
  };
  const auto message = [](Role role, std::string content) {
    Message result{.role = role};
    result.content = std::move(content);
    return result;
  };
  CalculatorConversation conversation{.turns = turns};
  conversation.question = filled(
      [&](const std::string& digits) {
        const std::vector<Message> messages = {message(Role::kUser, "What is " + digits + "?")};
        return static_cast<int32_t>(renderer.render(messages, {}, true)->ids.size());
      },
      prompt_tokens, '7');
  conversation.question = "What is " + conversation.question + "?";
  // 10^n has n + 1 digits; blanks before it make the call longer.
  const std::vector<int32_t> turn = tokenizer->encode_with_special(call_of("7"));
  const size_t digits_observed =
      filled(
          [&](const std::string& digits) {
            const std::vector<Message> messages = {message(Role::kTool, digits)};
            return static_cast<int32_t>(
                std::get<RenderedTokens>(*renderer.bridge(turn, messages)).ids.size());
          },
          observed_tokens, '7')
          .size();
  const std::string power = fmt::format("10^{}", digits_observed - 1);
  const std::string blanks = filled(
      [&](const std::string& filling) { return count(call_of(filling + power)); }, sampled_tokens, ' ');
  conversation.expression = blanks + power;
  return conversation;
}

Task<int64_t> roll_out(const CalculatorWorld& world, ScriptedEngine& engine, RolloutScale scale) {
  Pool blocking;
  const std::unique_ptr<EpisodeRunner> runner = world.runner(engine, blocking, scale.activity);
  Orchestrator::Options options;
  options.controller = {.total_steps = scale.batches,
                        .groups_per_batch = scale.groups_per_batch,
                        .group_size = RolloutScale::kGroupSize,
                        .max_concurrent_episodes = scale.concurrent,
                        .max_ahead = scale.max_ahead};
  options.activity = scale.activity;
  size_t event_bytes = 0;
  options.event_log = [&event_bytes](const Json& line) { event_bytes += line.dump().size(); };
  Orchestrator orchestrator(options, *runner, world.tasks(), engine);
  co_await orchestrator.start();
  int64_t episodes = 0, version = 0;
  while (const std::optional<RolloutBatch> batch = co_await orchestrator.next_batch()) {
    for (const Group& group : batch->groups) {
      for (const EpisodeRecord& episode : group.episodes) {
        if (!episode.reward || episode.trajectory.turn_count() != world.turns()) {
          throw internal_error("An episode of the benchmark did not go as written: " +
                               (episode.failure ? episode.failure->message : "it is too short"));
        }
        ++episodes;
      }
    }
    if (scale.after_batch) scale.after_batch(episodes);
    co_await orchestrator.step_finished(least_weights(++version));
  }
  co_await orchestrator.close();
  co_return episodes* world.turns();
}

double process_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace stoker
