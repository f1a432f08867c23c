#include "environment/question_answering/question_answering.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "environment/answer.h"
#include "environment/epoch_order.h"
#include "environment/question_answering/question_file.h"
#include "environment/question_environment.h"

namespace stoker {
namespace {

constexpr const char* kQuestionAnswering = "environment 'question_answering'";

class AnswerReward final : public Reward {
 public:
  AnswerReward(bool numeric, bool ignore_case) : numeric_(numeric), ignore_case_(ignore_case) {}

  std::string name() const override { return "answer"; }

  Task<Result<RewardResult>> score(const EpisodeView& episode) override {
    std::optional<std::string> answer = final_answer(episode);
    bool right = answer && matches(*answer, answer_text(episode.task.fields, episode.task.id));
    co_return RewardResult{.reward = right ? 1.0 : 0.0, .success = right};
  }

 private:
  bool matches(const std::string& answer, const std::string& reference) const {
    if (!numeric_) return normalized_text(answer, ignore_case_) == normalized_text(reference, ignore_case_);
    std::optional<std::string> number = last_number(answer);
    return number && number == last_number(reference);
  }

  bool numeric_;
  bool ignore_case_;
};

// Rows of a file in file order.
class FileOrderTasks final : public TaskSource {
 public:
  explicit FileOrderTasks(std::shared_ptr<const QuestionFile> file) : file_(std::move(file)) {}

  TaskRow task(uint64_t ordinal) const override { return file_->task(ordinal % file_->size()); }
  std::optional<uint64_t> epoch_size() const override { return file_->size(); }

 private:
  std::shared_ptr<const QuestionFile> file_;
};

// The rows `rows` of a file, each epoch in its own order.
class ShuffledTasks final : public TaskSource {
 public:
  ShuffledTasks(std::shared_ptr<const QuestionFile> file, std::vector<uint32_t> rows, uint64_t seed)
      : file_(std::move(file)), rows_(std::move(rows)), order_(rows_.size(), seed) {}

  TaskRow task(uint64_t ordinal) const override { return file_->task(rows_[order_.row(ordinal)]); }
  std::optional<uint64_t> epoch_size() const override { return order_.rows(); }

 private:
  std::shared_ptr<const QuestionFile> file_;
  std::vector<uint32_t> rows_;
  EpochOrder order_;
};

class QuestionAnsweringKind final : public EnvironmentKind {
 public:
  explicit QuestionAnsweringKind(QuestionAnsweringOptions options) : options_(std::move(options)) {}

  std::unique_ptr<Environment> make(Pool&) const override {
    return std::make_unique<QuestionEnvironment>(options_.calculator);
  }

  std::unique_ptr<TaskSource> training_tasks(uint64_t seed) const override {
    std::shared_ptr<const QuestionFile> file = file_of(options_.train_file, "train_file");
    std::vector<uint64_t> held_out;
    if (!options_.evaluation_file.empty()) {
      held_out = file_of(options_.evaluation_file, "evaluation_file")->question_hashes();
      std::sort(held_out.begin(), held_out.end());
    }
    std::vector<uint32_t> rows;
    for (size_t i = 0; i < file->size(); ++i) {
      if (!std::binary_search(held_out.begin(), held_out.end(), file->question_hashes()[i])) {
        rows.push_back(static_cast<uint32_t>(i));
      }
    }
    if (rows.empty()) {
      throw input_error(
          fmt::format("{}: every question of {} is held out by {}; give the training file other questions.",
                      kQuestionAnswering, options_.train_file, options_.evaluation_file));
    }
    if (size_t left_out = file->size() - rows.size(); left_out > 0) {
      log_warning("{} of {} questions of {} are held out by {} too; they are not trained on.", left_out,
                  file->size(), options_.train_file, options_.evaluation_file);
    }
    return std::make_unique<ShuffledTasks>(std::move(file), std::move(rows), seed);
  }

  std::unique_ptr<TaskSource> evaluation_tasks() const override {
    return std::make_unique<FileOrderTasks>(file_of(options_.evaluation_file, "evaluation_file"));
  }

  std::vector<std::unique_ptr<Reward>> rewards() const override {
    std::vector<std::unique_ptr<Reward>> rewards;
    rewards.push_back(std::make_unique<AnswerReward>(numeric(), options_.ignore_case));
    return rewards;
  }

 private:
  bool numeric() const { return options_.match == "numeric"; }

  // Read once, however often tasks are asked for.
  std::shared_ptr<const QuestionFile> file_of(const std::string& path, const char* key) const {
    std::lock_guard lock(mutex_);
    std::shared_ptr<const QuestionFile>& file = files_[path];
    if (file == nullptr) file = read(path, key);
    return file;
  }

  std::shared_ptr<const QuestionFile> read(const std::string& path, const char* key) const {
    if (path.empty()) {
      throw input_error(fmt::format("{}: {} is not set; name a JSON Lines file.", kQuestionAnswering, key));
    }
    try {
      return std::make_shared<QuestionFile>(path, static_cast<size_t>(options_.max_row_bytes), numeric());
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}, {}: {}", kQuestionAnswering, key, error.what()));
    }
  }

  QuestionAnsweringOptions options_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const QuestionFile>> files_;  // by path
};

}  // namespace

std::unique_ptr<EnvironmentKind> make_question_answering(const QuestionAnsweringOptions& options) {
  return std::make_unique<QuestionAnsweringKind>(options);
}

}  // namespace stoker
