#include "environment/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/config.h"
#include "base/error.h"
#include "environment/arithmetic/arithmetic.h"
#include "environment/command/command_kind.h"
#include "environment/dataset/dataset.h"
#include "environment/environment_config.h"
#include "environment/frozen_lake/frozen_lake.h"
#include "environment/gsm8k/gsm8k.h"
#include "environment/options.h"
#include "environment/question_answering/question_answering.h"
#include "environment/word_problems/word_problems.h"

namespace stoker {
namespace {

template <typename Options, std::unique_ptr<EnvironmentKind> (*kMake)(const Options&)>
class TypedOptions final : public EnvironmentOptions {
 public:
  void for_each_field(ConfigFields& visit) override { options_.for_each_field(visit); }
  std::unique_ptr<EnvironmentKind> make() const override { return kMake(options_); }
  std::unique_ptr<EnvironmentOptions> clone() const override { return std::make_unique<TypedOptions>(*this); }

 private:
  Options options_;
};

template <typename Options, std::unique_ptr<EnvironmentKind> (*kMake)(const Options&)>
std::unique_ptr<EnvironmentOptions> options_of() {
  return std::make_unique<TypedOptions<Options, kMake>>();
}

struct KnownKind {
  const char* name;
  const char* documentation;
  std::unique_ptr<EnvironmentOptions> (*options)();
};

// One line a kind, in alphabetical order.
constexpr KnownKind kKinds[] = {
    {"arithmetic", "Arithmetic questions with a calculator.", options_of<ArithmeticOptions, make_arithmetic>},
    {"command", "An environment in processes that speak docs/protocol.md.",
     options_of<CommandEnvironmentOptions, make_command>},
    {"dataset", "One question a row, in the formats of TRL, verl, NeMo Gym or verifiers.",
     options_of<DatasetOptions, make_dataset>},
    {"frozen_lake", "Walks over a frozen lake, the goal in one corner and holes between.",
     options_of<FrozenLakeOptions, make_frozen_lake>},
    {"gsm8k", "Grade-school mathematics: word problems with one number as the answer.",
     options_of<Gsm8kOptions, make_gsm8k>},
    {"question_answering", "Questions and answers from JSON Lines files.",
     options_of<QuestionAnsweringOptions, make_question_answering>},
    {"word_problems", "Arithmetic word problems with a calculator.",
     options_of<WordProblemsOptions, make_word_problems>},
};

std::unique_ptr<EnvironmentOptions> default_options(const std::string& name) {
  auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                           [&](const KnownKind& known) { return name == known.name; });
  if (kind != std::end(kKinds)) return kind->options();
  std::vector<std::string> names = environment_kind_names();
  std::string near = nearest_name(name, names);
  throw input_error(fmt::format("There is no environment \"{}\"{}; the known ones are {}.", name,
                                near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near),
                                fmt::join(names, ", ")));
}

}  // namespace

Task<> EnvironmentKind::open() { co_return; }
Task<std::vector<std::string>> EnvironmentKind::check_at_rest() { co_return std::vector<std::string>{}; }

Task<> Environment::admit(const TaskRow&, const EpisodeId&) { co_return; }

Task<Result<RewardResult>> Environment::score(const std::optional<Failure>&) {
  throw internal_error("An environment without a score of its own was asked for it.");
  co_return RewardResult{};
}

std::unique_ptr<EnvironmentKind> make_environment_kind(const std::string& name, const Json& options) {
  std::unique_ptr<EnvironmentOptions> typed = default_options(name);
  ConfigReader reader(*typed);
  read_options(reader, options, fmt::format("environment '{}'", name));
  return typed->make();
}

std::vector<std::string> environment_kind_names() {
  std::vector<std::string> names;
  for (const KnownKind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

std::string environment_kind_documentation(const std::string& name) {
  std::unique_ptr<EnvironmentOptions> options = default_options(name);
  return ConfigReader(*options).documentation();
}

EnvironmentConfig::EnvironmentConfig() {
  for (const KnownKind& kind : kKinds) sections_.push_back({kind.name, kind.documentation, kind.options()});
}

EnvironmentConfig::EnvironmentConfig(const EnvironmentConfig& other) : kind(other.kind) {
  for (const Section& section : other.sections_) {
    sections_.push_back({section.name, section.documentation, section.options->clone()});
  }
}

EnvironmentConfig& EnvironmentConfig::operator=(EnvironmentConfig other) noexcept {
  std::swap(kind, other.kind);
  std::swap(sections_, other.sections_);
  return *this;
}

void EnvironmentConfig::for_each_field(ConfigFields& visit) {
  visit("kind", kind, "Which environment.", one_of(environment_kind_names()));
  for (Section& section : sections_) visit.section(section.name, *section.options, section.documentation);
}

std::unique_ptr<EnvironmentKind> EnvironmentConfig::make() const {
  for (const Section& section : sections_) {
    if (section.name == kind) return section.options->make();
  }
  return default_options(kind)->make();  // an unknown name, set by code: throws
}

std::unique_ptr<EnvironmentKind> make_environment_kind(const EnvironmentConfig& config) {
  return config.make();
}

}  // namespace stoker
