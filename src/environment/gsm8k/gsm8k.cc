#include "environment/gsm8k/gsm8k.h"

#include "environment/dataset/dataset.h"

namespace stoker {

std::unique_ptr<EnvironmentKind> make_gsm8k(const Gsm8kOptions& options) {
  DatasetOptions dataset;
  dataset.files.train_file = options.train_file;
  dataset.files.evaluation_file = options.evaluation_file;
  dataset.files.format = "verifiers";
  dataset.instruction = options.instruction;
  dataset.calculator = options.calculator;
  dataset.match = options.reward ? "gsm8k" : "none";
  return make_dataset_kind(dataset, "gsm8k");
}

}  // namespace stoker
