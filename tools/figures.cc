// Figures, for './dev accept' and './dev bench'; run in the root of the tree.
//   figures accept AREA [NAME] [--again]
//   figures accept --list [AREA]
//   figures merge OUTPUT INPUT...
//   figures tests OUTPUT REPORT...       counts of GoogleTest's JSON reports

#include <fmt/core.h>

#include <exception>
#include <string>
#include <vector>

#include "acceptance.h"
#include "base/error.h"

namespace stoker {
namespace {

int accept(const std::vector<std::string>& arguments) {
  bool list = false;
  bool again = false;
  std::vector<std::string> names;
  for (const std::string& argument : arguments) {
    if (argument == "--list") {
      list = true;
    } else if (argument == "--again") {
      again = true;
    } else if (argument.starts_with("-")) {
      throw input_error(fmt::format("accept does not know {}; see './dev help'.", argument));
    } else {
      names.push_back(argument);
    }
  }
  if (names.size() > (list ? 1u : 2u) || (!list && names.empty())) {
    throw input_error("Write './dev accept AREA [NAME]' or './dev accept --list [AREA]'.");
  }
  names.resize(2);
  Acceptance acceptance(std::filesystem::current_path());
  bool good = list ? acceptance.list(names[0]) : acceptance.measure(names[0], names[1], again);
  return good ? 0 : 1;
}

int run(std::vector<std::string> arguments) {
  std::string verb = arguments.empty() ? "" : arguments.front();
  if (!arguments.empty()) arguments.erase(arguments.begin());
  if (verb == "accept") return accept(arguments);
  if ((verb == "merge" || verb == "tests") && arguments.size() >= 2) {
    (verb == "merge" ? merge_figures : count_tests)(arguments.front(),
                                                    {arguments.begin() + 1, arguments.end()});
    return 0;
  }
  throw input_error(
      "Usage: figures accept ... | figures merge OUTPUT INPUT... | figures tests OUTPUT REPORT...");
}

}  // namespace
}  // namespace stoker

int main(int count, char** arguments) {
  try {
    return stoker::run({arguments + 1, arguments + count});
  } catch (const stoker::Error& error) {
    fmt::print(stderr, "figures: {}\n", error.what());
    return error.kind() == stoker::ErrorKind::kInput ? 2 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "figures: {}\n", error.what());
    return 1;
  }
}
