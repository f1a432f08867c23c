#include "environment/arithmetic/arithmetic.h"

#include <fmt/format.h>

#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "environment/arithmetic/problem.h"
#include "environment/calculator_question.h"
#include "environment/question_environment.h"

namespace stoker {
namespace {

constexpr const char* kArithmetic = "environment 'arithmetic'";
constexpr size_t kForms = 5;

// What a stream of draws is for: fills StreamKey::sample, so that no two uses share a draw.
enum class Use : uint32_t { kTraining, kCleanDemonstration, kImperfectDemonstration, kEvaluation };

RandomStream stream_for(Use use, uint64_t seed, uint64_t index) {
  return RandomStream(StreamKey{.run_seed = seed,
                                .purpose = RandomPurpose::kData,
                                .task_ordinal = index,
                                .sample = static_cast<uint32_t>(use)});
}

void check_weights(const std::vector<double>& weights, const char* name, size_t fewest, size_t most) {
  if (weights.size() < fewest || weights.size() > most ||
      std::accumulate(weights.begin(), weights.end(), 0.0) <= 0) {
    throw input_error(
        fmt::format("{}: {} must hold {} weights, not all 0.", kArithmetic, name,
                    fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most)));
  }
}

// The drawn problems of one set of options; knows the held-out ones. Immutable, shared by what is made of it.
class Problems {
 public:
  explicit Problems(const ArithmeticOptions& options)
      : difficulty_{options.digit_weights, options.form_weights} {
    check_weights(options.digit_weights, "digit_weights", 1, kMaxOperandDigits);
    check_weights(options.form_weights, "form_weights", kForms, kForms);
    draw_held_out(options);
    check_room(options);
  }

  const std::vector<ArithmeticProblem>& held_out() const { return held_out_; }
  bool is_held_out(const std::string& expression) const { return held_out_set_.contains(expression); }

  // The next problem of the stream that is not held out.
  ArithmeticProblem draw(RandomStream& random) const {
    for (int i = 0; i < kMaxRedraws; ++i) {
      ArithmeticProblem problem = draw_problem(difficulty_, random);
      if (!is_held_out(problem.expression)) return problem;
    }
    throw internal_error("Arithmetic found no expression outside the held-out ones.");
  }

 private:
  static constexpr int kMaxRedraws = 2000;

  void draw_held_out(const ArithmeticOptions& options) {
    RandomStream random = stream_for(Use::kEvaluation, static_cast<uint64_t>(options.evaluation_seed), 0);
    int repeats = 0;
    while (static_cast<int>(held_out_.size()) < options.evaluation_size) {
      ArithmeticProblem problem = draw_problem(difficulty_, random);
      if (held_out_set_.insert(problem.expression).second) {
        held_out_.push_back(std::move(problem));
        repeats = 0;
      } else if (++repeats == kMaxRedraws) {
        throw input_error(
            fmt::format("{}: digit_weights and form_weights give only {} different expressions, fewer than "
                        "evaluation_size; lower evaluation_size or allow more digits.",
                        kArithmetic, held_out_.size()));
      }
    }
  }

  // Refuses options whose expressions are nearly all held out: redrawing would not end.
  void check_room(const ArithmeticOptions& options) const {
    constexpr int kDraws = 1000;
    RandomStream random = stream_for(Use::kEvaluation, static_cast<uint64_t>(options.evaluation_seed), 1);
    int free = 0;
    for (int i = 0; i < kDraws; ++i) free += !is_held_out(draw_problem(difficulty_, random).expression);
    if (free < kDraws / 20) {
      throw input_error(fmt::format(
          "{}: evaluation_size holds out {} % of the drawn expressions, which leaves too few for training; "
          "lower it or allow more digits.",
          kArithmetic, 100 - 100 * free / kDraws));
    }
  }

  ProblemDifficulty difficulty_;
  std::vector<ArithmeticProblem> held_out_;
  std::set<std::string> held_out_set_;
};

TaskRow task_row(std::string id, const ArithmeticProblem& problem) {
  return calculator_task(std::move(id), problem.question, problem.expression, problem.value);
}

class TrainingTasks final : public TaskSource {
 public:
  TrainingTasks(std::shared_ptr<const Problems> problems, uint64_t seed)
      : problems_(std::move(problems)), seed_(seed) {}

  TaskRow task(uint64_t ordinal) const override {
    RandomStream random = stream_for(Use::kTraining, seed_, ordinal);
    return task_row(fmt::format("train/{}", ordinal), problems_->draw(random));
  }
  std::optional<uint64_t> epoch_size() const override { return std::nullopt; }

 private:
  std::shared_ptr<const Problems> problems_;
  uint64_t seed_;
};

class EvaluationTasks final : public TaskSource {
 public:
  explicit EvaluationTasks(std::shared_ptr<const Problems> problems) : problems_(std::move(problems)) {}

  TaskRow task(uint64_t ordinal) const override {
    uint64_t index = ordinal % problems_->held_out().size();
    return task_row(fmt::format("evaluation/{}", index), problems_->held_out()[index]);
  }
  std::optional<uint64_t> epoch_size() const override { return problems_->held_out().size(); }

 private:
  std::shared_ptr<const Problems> problems_;
};

Message user(std::string text) { return {.role = Role::kUser, .content = std::move(text)}; }

class ArithmeticKind final : public EnvironmentKind {
 public:
  explicit ArithmeticKind(ArithmeticOptions options)
      : options_(std::move(options)), problems_(std::make_shared<Problems>(options_)) {
    if (options_.direct_share + options_.corrupted_share + options_.misreported_share > 1.0 + 1e-9) {
      throw input_error(
          fmt::format("{}: direct_share, corrupted_share and misreported_share must not sum to more than 1.",
                      kArithmetic));
    }
  }

  std::unique_ptr<Environment> make(Pool&) const override {
    return std::make_unique<QuestionEnvironment>(options_.calculator);
  }
  std::unique_ptr<TaskSource> training_tasks(uint64_t seed) const override {
    return std::make_unique<TrainingTasks>(problems_, seed);
  }
  std::unique_ptr<TaskSource> evaluation_tasks() const override {
    return std::make_unique<EvaluationTasks>(problems_);
  }
  std::vector<std::unique_ptr<Reward>> rewards() const override {
    std::vector<std::unique_ptr<Reward>> rewards;
    rewards.push_back(make_whole_number_reward());
    return rewards;
  }

  std::optional<Demonstration> demonstration(uint64_t index, uint64_t seed) const override {
    bool clean = options_.demonstrations == "clean";
    RandomStream random =
        stream_for(clean ? Use::kCleanDemonstration : Use::kImperfectDemonstration, seed, index);
    ArithmeticProblem problem = problems_->draw(random);
    Habit habit = clean ? Habit::kRight : draw_habit(random);
    Demonstration result{.messages = {user(problem.question)}};
    std::vector<Message>& messages = result.messages;
    if (habit != Habit::kDirect) {
      append_calculation(
          messages, habit == Habit::kCorrupted ? corrupted(problem.expression, random) : problem.expression);
    }
    bool reports_result = habit == Habit::kRight || habit == Habit::kCorrupted;
    std::string number =
        reports_result ? messages.back().content : std::to_string(wrong_number(problem.value, random));
    messages.push_back({.role = Role::kAssistant, .content = fmt::format("The answer is {}.", number)});
    return result;
  }

 private:
  enum class Habit { kRight, kDirect, kCorrupted, kMisreported };

  Habit draw_habit(RandomStream& random) const {
    double point = random.uniform();
    if (point < options_.direct_share) return Habit::kDirect;
    if (point < options_.direct_share + options_.corrupted_share) return Habit::kCorrupted;
    double mistakes = options_.direct_share + options_.corrupted_share + options_.misreported_share;
    return point < mistakes ? Habit::kMisreported : Habit::kRight;
  }

  // Ends: a leading zero can always be inserted, and no held-out expression has one.
  std::string corrupted(const std::string& expression, RandomStream& random) const {
    std::string changed;
    do {
      changed = corrupt_expression(expression, random);
    } while (problems_->is_held_out(changed));
    return changed;
  }

  ArithmeticOptions options_;
  std::shared_ptr<const Problems> problems_;
};

}  // namespace

std::unique_ptr<EnvironmentKind> make_arithmetic(const ArithmeticOptions& options) {
  return std::make_unique<ArithmeticKind>(options);
}

}  // namespace stoker
