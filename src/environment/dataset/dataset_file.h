#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "environment/dataset/column_mapping.h"
#include "environment/dataset/row_file.h"
#include "environment/environment.h"
#include "environment/task_source.h"

namespace stoker {

// Data files of tasks and how to read them: part of the options of the kinds that have them.
struct DatasetFiles {
  std::string train_file;
  std::string evaluation_file;
  std::string format = "auto";
  std::string prompt_column;
  std::string answer_column;
  std::string id_column;
  int64_t max_row_bytes = int64_t{16} << 20;

  template <typename V>
  void for_each_field(V& visit) {
    visit("train_file", train_file, "Training rows: JSON Lines, or CSV (.csv).");
    visit("evaluation_file", evaluation_file, "Held-out rows.");
    visit("format", format, "Which columns the rows have; auto tells by the first row.",
          one_of(dataset_formats()));
    visit(
        "prompt_column", prompt_column,
        "The column of the prompt (a text or messages), as in \"question\" or \"extra_info.prompt\"; empty: "
        "the format's.");
    visit("answer_column", answer_column, "The column of the answer; empty: the format's.");
    visit("id_column", id_column, "The column of a row's own name; empty: id, where there is one.");
    visit("max_row_bytes", max_row_bytes, "Longest row that is read.", between(1, 4294967295.0));
  }
};

// What a kind wants of every row.
struct RowNeeds {
  bool messages = true;  // else the rows are an outside environment's business
  bool answer = false;
  // A problem with a row's answer as a clause ("holds no number"); empty: none.
  std::string (*check_answer)(const std::string& answer) = nullptr;
};

// The checked rows of one file. Immutable.
class DatasetFile {
 public:
  // Throws Error(kInput) naming file, line and remedy.
  DatasetFile(const std::string& path, const DatasetFiles& options, const RowNeeds& needs);

  size_t size() const { return rows_->size(); }
  // The row as it is; its id is its own, or "train.jsonl:7".
  TaskRow task(size_t index) const;
  const ColumnMapping& mapping() const { return mapping_; }
  // Of the prompt alone (without one: of the whole row): equal for equal questions.
  const std::vector<uint64_t>& hashes() const { return hashes_; }

 private:
  void check_row(const Json& row, const std::string& place, const DatasetFiles& options,
                 const RowNeeds& needs);
  void check_ids() const;

  std::string name_;
  ColumnMapping mapping_;
  bool mapped_ = false;
  std::vector<uint64_t> hashes_;     // filled while rows_ is made
  std::vector<uint64_t> id_hashes_;  // 0: no id of its own
  std::unique_ptr<RowFile> rows_;
};

// The files of a kind, each read once and when first needed; `kind` begins sentences: "environment
// 'dataset'".
class DatasetTasks {
 public:
  DatasetTasks(DatasetFiles options, RowNeeds needs, std::string kind);
  ~DatasetTasks();

  const DatasetFiles& options() const { return options_; }
  // In a seeded order of its own each epoch, without the rows whose question is held out (a warning says so).
  std::unique_ptr<TaskSource> training(uint64_t seed) const;
  // In file order.
  std::unique_ptr<TaskSource> evaluation() const;
  // Of the rows of either file: of the training file, or the evaluation file where there is none.
  const ColumnMapping& mapping() const;

 private:
  struct Opened;
  std::shared_ptr<const DatasetFile> open(const std::string& path, const char* key) const;
  void check_alike() const;

  DatasetFiles options_;
  RowNeeds needs_;
  std::string kind_;
  std::unique_ptr<Opened> opened_;
};

}  // namespace stoker
