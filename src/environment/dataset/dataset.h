#pragma once

#include <memory>
#include <string>

#include "base/config.h"
#include "environment/dataset/dataset_file.h"
#include "environment/registry.h"

namespace stoker {

// Options of the environment "dataset".
struct DatasetOptions {
  DatasetFiles files;
  std::string match = "none";
  std::string instruction;
  bool calculator = false;

  template <typename V>
  void for_each_field(V& visit) {
    files.for_each_field(visit);
    visit(
        "match", match,
        "The reward \"answer\", 1 or 0: numeric (the last numbers are equal), exact (the texts are equal but "
        "for blanks and case), gsm8k (the final numbers are equal); none: rewards come from reward.command.",
        one_of({"none", "numeric", "exact", "gsm8k"}));
    visit("instruction", instruction, "Added to the last message of each prompt, after an empty line.");
    visit("calculator", calculator, "Offers the calculator tool.");
  }
};

// One question a row, in the formats that people have (column_mapping.h). The first turn without tool calls
// is the answer and ends the episode. A task's fields are the row as it is, for rewards to look at.
//
// A missing or broken file or row throws Error(kInput) when the files are first needed.
std::unique_ptr<EnvironmentKind> make_dataset(const DatasetOptions& options);

// The same under another name, for sentences.
std::unique_ptr<EnvironmentKind> make_dataset_kind(const DatasetOptions& options, const std::string& name);

}  // namespace stoker
