#include "environment/environment_config.h"

namespace stoker {

std::unique_ptr<EnvironmentKind> make_environment_kind(const EnvironmentConfig& config) {
  if (config.kind == "question_answering") return make_question_answering(config.question_answering);
  return make_arithmetic(config.arithmetic);
}

}  // namespace stoker
