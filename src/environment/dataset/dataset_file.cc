#include "environment/dataset/dataset_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "environment/epoch_order.h"

namespace stoker {
namespace {

// The text of a row's own id; empty when it has none.
std::string own_id(const Json& row, const ColumnMapping& mapping) {
  const Json* id = column(row, mapping.id);
  if (id == nullptr || id->is_null()) return "";
  return id->is_string() ? id->as_string() : id->dump();
}

class FileOrder final : public TaskSource {
 public:
  explicit FileOrder(std::shared_ptr<const DatasetFile> file) : file_(std::move(file)) {}

  TaskRow task(uint64_t ordinal) const override { return file_->task(ordinal % file_->size()); }
  std::optional<uint64_t> epoch_size() const override { return file_->size(); }

 private:
  std::shared_ptr<const DatasetFile> file_;
};

class Shuffled final : public TaskSource {
 public:
  Shuffled(std::shared_ptr<const DatasetFile> file, std::vector<uint32_t> rows, uint64_t seed)
      : file_(std::move(file)), rows_(std::move(rows)), order_(rows_.size(), seed) {}

  TaskRow task(uint64_t ordinal) const override { return file_->task(rows_[order_.row(ordinal)]); }
  std::optional<uint64_t> epoch_size() const override { return order_.rows(); }

 private:
  std::shared_ptr<const DatasetFile> file_;
  std::vector<uint32_t> rows_;
  EpochOrder order_;
};

}  // namespace

DatasetFile::DatasetFile(const std::string& path, const DatasetFiles& options, const RowNeeds& needs)
    : name_(std::filesystem::path(path).filename().string()),
      rows_(open_row_file(
          path, static_cast<size_t>(options.max_row_bytes),
          [&](const Json& row, const std::string& place) { check_row(row, place, options, needs); })) {
  check_ids();
}

void DatasetFile::check_row(const Json& row, const std::string& place, const DatasetFiles& options,
                            const RowNeeds& needs) {
  if (!std::exchange(mapped_, true)) {
    mapping_ = mapping_of(options.format, row);
    if (!options.prompt_column.empty()) mapping_.prompt = options.prompt_column;
    if (!options.answer_column.empty()) mapping_.answer = options.answer_column;
    if (!options.id_column.empty()) mapping_.id = options.id_column;
  }
  if (needs.messages) {
    hashes_.push_back(hash64(messages_to_json(mapped_messages(row, mapping_, place)).dump()));
  } else {
    hashes_.push_back(hash64(row.dump()));
  }
  if (needs.answer) {
    const std::optional<std::string> answer = mapped_answer(row, mapping_);
    const std::string named = mapping_.answer.empty() ? "answer" : mapping_.answer;
    if (!answer) {
      throw input_error(fmt::format(
          "{}: the row has no text or number in the column \"{}\"; name another with answer_column.", place,
          named));
    }
    const std::string problem = needs.check_answer != nullptr ? needs.check_answer(*answer) : "";
    if (!problem.empty()) throw input_error(fmt::format("{}: \"{}\" {}.", place, named, problem));
  }
  const std::string id = own_id(row, mapping_);
  id_hashes_.push_back(id.empty() ? 0 : hash64(id));
}

// Equal hashes are only a hint: the rows themselves decide.
void DatasetFile::check_ids() const {
  std::vector<std::pair<uint64_t, size_t>> order;
  for (size_t i = 0; i < id_hashes_.size(); ++i) {
    if (id_hashes_[i] != 0) order.emplace_back(id_hashes_[i], i);
  }
  std::sort(order.begin(), order.end());
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i].first != order[i - 1].first) continue;
    const std::string id = own_id(rows_->row(order[i].second), mapping_);
    if (id != own_id(rows_->row(order[i - 1].second), mapping_)) continue;
    throw input_error(fmt::format("{}: the \"{}\" {} stands in line {} too; give each row its own.",
                                  rows_->place(order[i].second), mapping_.id, id,
                                  rows_->line_number(order[i - 1].second)));
  }
}

TaskRow DatasetFile::task(size_t index) const {
  Json row = rows_->row(index);
  std::string id = own_id(row, mapping_);
  if (id.empty()) id = fmt::format("{}:{}", name_, rows_->line_number(index));
  return {std::move(id), std::move(row)};
}

struct DatasetTasks::Opened {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const DatasetFile>> files;  // by path
};

DatasetTasks::DatasetTasks(DatasetFiles options, RowNeeds needs, std::string kind)
    : options_(std::move(options)),
      needs_(needs),
      kind_(std::move(kind)),
      opened_(std::make_unique<Opened>()) {}
DatasetTasks::~DatasetTasks() = default;

std::shared_ptr<const DatasetFile> DatasetTasks::open(const std::string& path, const char* key) const {
  if (path.empty()) {
    throw input_error(fmt::format("{}: {} is not set; name a JSON Lines or CSV file.", kind_, key));
  }
  const std::lock_guard lock(opened_->mutex);
  std::shared_ptr<const DatasetFile>& file = opened_->files[path];
  if (file != nullptr) return file;
  try {
    file = std::make_shared<DatasetFile>(path, options_, needs_);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}, {}: {}", kind_, key, error.what()));
  }
  return file;
}

// One mapping serves the rows of both files.
void DatasetTasks::check_alike() const {
  if (options_.train_file.empty() || options_.evaluation_file.empty()) return;
  if (open(options_.train_file, "train_file")->mapping() ==
      open(options_.evaluation_file, "evaluation_file")->mapping()) {
    return;
  }
  throw input_error(fmt::format("{}: {} and {} have different columns; bring them into one format.", kind_,
                                options_.train_file, options_.evaluation_file));
}

std::unique_ptr<TaskSource> DatasetTasks::training(uint64_t seed) const {
  check_alike();
  std::shared_ptr<const DatasetFile> file = open(options_.train_file, "train_file");
  std::vector<uint64_t> held_out;
  if (!options_.evaluation_file.empty())
    held_out = open(options_.evaluation_file, "evaluation_file")->hashes();
  std::sort(held_out.begin(), held_out.end());
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < file->size(); ++i) {
    if (!std::binary_search(held_out.begin(), held_out.end(), file->hashes()[i])) {
      rows.push_back(static_cast<uint32_t>(i));
    }
  }
  if (rows.empty()) {
    throw input_error(
        fmt::format("{}: every question of {} is held out by {}; give the training file other questions.",
                    kind_, options_.train_file, options_.evaluation_file));
  }
  if (const size_t left_out = file->size() - rows.size(); left_out > 0) {
    log_warning("{} of {} questions of {} are held out by {} too; they are not trained on.", left_out,
                file->size(), options_.train_file, options_.evaluation_file);
  }
  return std::make_unique<Shuffled>(std::move(file), std::move(rows), seed);
}

std::unique_ptr<TaskSource> DatasetTasks::evaluation() const {
  check_alike();
  return std::make_unique<FileOrder>(open(options_.evaluation_file, "evaluation_file"));
}

const ColumnMapping& DatasetTasks::mapping() const {
  return options_.train_file.empty() ? open(options_.evaluation_file, "evaluation_file")->mapping()
                                     : open(options_.train_file, "train_file")->mapping();
}

}  // namespace stoker
