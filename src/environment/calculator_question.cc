#include "environment/calculator_question.h"

#include <optional>
#include <utility>

#include "environment/answer.h"
#include "environment/calculator/calculator.h"

namespace stoker {
namespace {

class WholeNumberReward final : public Reward {
 public:
  std::string name() const override { return "answer"; }

  Task<Result<RewardResult>> score(const EpisodeView& episode) override {
    std::optional<std::string> answer = final_answer(episode);
    std::optional<std::string> number = answer ? last_number(*answer) : std::nullopt;
    bool right = number && *number == std::to_string(episode.task.fields.at("answer").as_int());
    co_return RewardResult{.reward = right ? 1.0 : 0.0, .success = right};
  }
};

}  // namespace

TaskRow calculator_task(std::string id, const std::string& question, const std::string& expression,
                        int64_t value) {
  return {std::move(id), Json::object({{"prompt", question}, {"expression", expression}, {"answer", value}})};
}

std::unique_ptr<Reward> make_whole_number_reward() { return std::make_unique<WholeNumberReward>(); }

void append_calculation(std::vector<Message>& messages, const std::string& expression) {
  ToolCall call{.name = "calculator", .arguments = Json::object({{"expression", expression}})};
  messages.push_back({.role = Role::kAssistant, .tool_calls = {std::move(call)}});
  messages.push_back({.role = Role::kTool, .content = calculate(expression).content, .name = "calculator"});
}

}  // namespace stoker
