#include "environment/dataset/dataset.h"

#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "environment/answer.h"
#include "environment/calculator/calculator.h"
#include "environment/gsm8k/final_number.h"

namespace stoker {
namespace {

// What a way to match makes of a text; equal forms match. Empty: the text has none.
using Form = std::optional<std::string> (*)(const std::string& text);

std::optional<std::string> numeric_form(const std::string& text) { return last_number(text); }
std::optional<std::string> exact_form(const std::string& text) { return normalized_text(text, true); }
std::optional<std::string> gsm8k_form(const std::string& text) { return final_number(text); }

Form form_of(const std::string& match) {
  if (match == "numeric") return numeric_form;
  if (match == "exact") return exact_form;
  return match == "gsm8k" ? gsm8k_form : nullptr;
}

std::string check_numeric(const std::string& answer) {
  return numeric_form(answer) ? "" : "holds no number; set match to exact or none";
}
std::string check_gsm8k(const std::string& answer) { return gsm8k_form(answer) ? "" : "holds no number"; }

RowNeeds needs_of(const DatasetOptions& options) {
  RowNeeds needs{.answer = options.match != "none"};
  if (options.match == "numeric") needs.check_answer = check_numeric;
  if (options.match == "gsm8k") needs.check_answer = check_gsm8k;
  return needs;
}

class DatasetEnvironment final : public Environment {
 public:
  DatasetEnvironment(std::shared_ptr<const DatasetTasks> tasks, const DatasetOptions& options)
      : tasks_(std::move(tasks)), instruction_(options.instruction), with_calculator_(options.calculator) {}

  Task<Result<Observation>> reset(const TaskRow& task, uint64_t) override {
    try {
      Observation first{.messages = mapped_messages(task.fields, tasks_->mapping(), task.id)};
      if (!instruction_.empty()) first.messages.back().content += "\n\n" + instruction_;
      co_return first;
    } catch (const Error& error) {
      co_return Failure{FailureClass::kEnvironment, "bad_task", error.what()};
    }
  }
  Task<Result<Observation>> step(const Action& action) override {
    co_return Observation{.done = action.tool_calls.empty()};
  }
  Task<> close() override { co_return; }
  std::vector<Tool*> tools() override {
    return with_calculator_ ? std::vector<Tool*>{&calculator_} : std::vector<Tool*>{};
  }

 private:
  std::shared_ptr<const DatasetTasks> tasks_;
  std::string instruction_;
  bool with_calculator_;
  CalculatorTool calculator_;
};

class MatchReward final : public Reward {
 public:
  MatchReward(std::shared_ptr<const DatasetTasks> tasks, Form form) : tasks_(std::move(tasks)), form_(form) {}

  std::string name() const override { return "answer"; }

  Task<Result<RewardResult>> score(const EpisodeView& episode) override {
    const std::optional<std::string> reference = mapped_answer(episode.task.fields, tasks_->mapping());
    if (!reference) {
      co_return Failure{FailureClass::kReward, "no_answer",
                        fmt::format("The row {} has no answer to compare with.", episode.task.id)};
    }
    const std::optional<std::string> answer = final_answer(episode);
    const std::optional<std::string> form = answer ? form_(*answer) : std::nullopt;
    const bool right = form && form == form_(*reference);
    co_return RewardResult{.reward = right ? 1.0 : 0.0, .success = right};
  }

 private:
  std::shared_ptr<const DatasetTasks> tasks_;
  Form form_;
};

class DatasetKind final : public EnvironmentKind {
 public:
  DatasetKind(DatasetOptions options, const std::string& name)
      : options_(std::move(options)),
        tasks_(std::make_shared<const DatasetTasks>(options_.files, needs_of(options_), name)) {}

  std::unique_ptr<Environment> make(Pool&) const override {
    return std::make_unique<DatasetEnvironment>(tasks_, options_);
  }
  std::unique_ptr<TaskSource> training_tasks(uint64_t seed) const override { return tasks_->training(seed); }
  std::unique_ptr<TaskSource> evaluation_tasks() const override { return tasks_->evaluation(); }
  std::vector<std::unique_ptr<Reward>> rewards() const override {
    std::vector<std::unique_ptr<Reward>> rewards;
    if (const Form form = form_of(options_.match)) {
      rewards.push_back(std::make_unique<MatchReward>(tasks_, form));
    }
    return rewards;
  }

 private:
  DatasetOptions options_;
  std::shared_ptr<const DatasetTasks> tasks_;
};

}  // namespace

std::unique_ptr<EnvironmentKind> make_dataset_kind(const DatasetOptions& options, const std::string& name) {
  return std::make_unique<DatasetKind>(options, fmt::format("environment '{}'", name));
}

std::unique_ptr<EnvironmentKind> make_dataset(const DatasetOptions& options) {
  return make_dataset_kind(options, "dataset");
}

}  // namespace stoker
