#pragma once

#include <memory>
#include <string>

#include "base/config.h"
#include "environment/arithmetic/arithmetic.h"
#include "environment/question_answering/question_answering.h"
#include "environment/registry.h"

namespace stoker {

// The `environment` section of a run file: which kind, and the options of each kind under its own name.
struct EnvironmentConfig {
  std::string kind = "arithmetic";
  ArithmeticOptions arithmetic;
  QuestionAnsweringOptions question_answering;

  template <typename V>
  void for_each_field(V& visit) {
    visit("kind", kind, "Which environment.", one_of(environment_kind_names()));
    visit.section("arithmetic", arithmetic, "Arithmetic questions with a calculator.");
    visit.section("question_answering", question_answering, "Questions and answers from JSON Lines files.");
  }
};
std::unique_ptr<EnvironmentKind> make_environment_kind(const EnvironmentConfig& config);

}  // namespace stoker
