#include "environment/word_problems/word_problems.h"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "environment/calculator_question.h"
#include "environment/question_environment.h"
#include "environment/word_problems/problem.h"

namespace stoker {
namespace {

// What a stream of draws is for: fills StreamKey::sample, so that no two uses share a draw.
enum class Use : uint32_t { kTraining, kDemonstration, kEvaluation };

WordProblem draw_problem(Use use, uint64_t seed, uint64_t index) {
  RandomStream random(StreamKey{.run_seed = seed,
                                .purpose = RandomPurpose::kData,
                                .task_ordinal = index,
                                .sample = static_cast<uint32_t>(use)});
  // Held-out templates by turns, so that each counts alike.
  if (use == Use::kEvaluation)
    return fill_template(held_out_templates()[index % held_out_templates().size()], random);
  return fill_template(training_templates()[random.below(training_templates().size())], random);
}

class DrawnTasks final : public TaskSource {
 public:
  DrawnTasks(Use use, uint64_t seed, std::optional<uint64_t> size) : use_(use), seed_(seed), size_(size) {}

  TaskRow task(uint64_t ordinal) const override {
    uint64_t index = size_ ? ordinal % *size_ : ordinal;
    WordProblem problem = draw_problem(use_, seed_, index);
    const char* set = use_ == Use::kTraining ? "train" : "evaluation";
    return calculator_task(fmt::format("{}/{}", set, index), problem.question, problem.expression,
                           problem.value);
  }
  std::optional<uint64_t> epoch_size() const override { return size_; }

 private:
  Use use_;
  uint64_t seed_;
  std::optional<uint64_t> size_;
};

class WordProblemsKind final : public EnvironmentKind {
 public:
  explicit WordProblemsKind(const WordProblemsOptions& options) : options_(options) {}

  std::unique_ptr<Environment> make(Pool&) const override {
    return std::make_unique<QuestionEnvironment>(true);
  }
  std::unique_ptr<TaskSource> training_tasks(uint64_t seed) const override {
    return std::make_unique<DrawnTasks>(Use::kTraining, seed, std::nullopt);
  }
  std::unique_ptr<TaskSource> evaluation_tasks() const override {
    return std::make_unique<DrawnTasks>(Use::kEvaluation, static_cast<uint64_t>(options_.evaluation_seed),
                                        static_cast<uint64_t>(options_.evaluation_size));
  }
  std::vector<std::unique_ptr<Reward>> rewards() const override {
    std::vector<std::unique_ptr<Reward>> rewards;
    rewards.push_back(make_whole_number_reward());
    return rewards;
  }

  std::optional<Demonstration> demonstration(uint64_t index, uint64_t seed) const override {
    WordProblem problem = draw_problem(Use::kDemonstration, seed, index);
    Demonstration result{.messages = {{.role = Role::kUser, .content = problem.question}}};
    append_calculation(result.messages, problem.expression);
    result.messages.push_back(
        {.role = Role::kAssistant, .content = fmt::format("The answer is {}.", problem.value)});
    return result;
  }

 private:
  WordProblemsOptions options_;
};

}  // namespace

std::unique_ptr<EnvironmentKind> make_word_problems(const WordProblemsOptions& options) {
  return std::make_unique<WordProblemsKind>(options);
}

}  // namespace stoker
