#include "environment/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/config.h"
#include "base/error.h"
#include "environment/arithmetic/arithmetic.h"
#include "environment/question_answering/question_answering.h"

namespace stoker {
namespace {

struct KnownKind {
  const char* name;
  std::unique_ptr<EnvironmentKind> (*make)(const Json& options);
  std::string (*documentation)();
};

// One line a kind, in alphabetical order.
constexpr KnownKind kKinds[] = {
    {"arithmetic", make_arithmetic, arithmetic_documentation},
    {"question_answering", make_question_answering, question_answering_documentation},
};

const KnownKind& find_kind(const std::string& name) {
  auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                           [&](const KnownKind& known) { return name == known.name; });
  if (kind != std::end(kKinds)) return *kind;
  std::vector<std::string> names = environment_kind_names();
  std::string near = nearest_name(name, names);
  throw input_error(fmt::format("There is no environment \"{}\"{}; the known ones are {}.", name,
                                near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near),
                                fmt::join(names, ", ")));
}

}  // namespace

std::unique_ptr<EnvironmentKind> make_environment_kind(const std::string& name, const Json& options) {
  return find_kind(name).make(options);
}

std::vector<std::string> environment_kind_names() {
  std::vector<std::string> names;
  for (const KnownKind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

std::string environment_kind_documentation(const std::string& name) {
  return find_kind(name).documentation();
}

}  // namespace stoker
