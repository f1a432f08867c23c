#include "cli/env_command.h"

#include <fmt/core.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>

#include "async/pool.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "base/error.h"
#include "cli/env_check.h"
#include "cli/output_file.h"
#include "cli/run_file.h"
#include "environment/command/protocol_server.h"
#include "environment/environment_config.h"

namespace stoker {
namespace {

std::optional<std::string> read_line() {
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

void write_line(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

Task<> serve(Executor* executor, const EnvironmentKind* kind, std::string name, Pool* input, Pool* blocking) {
  ProtocolServer server(*executor, std::move(name), *kind, *blocking, write_line);
  while (const std::optional<std::string> line = co_await input->run(read_line)) server.take(*line);
  co_await server.finish();
}

}  // namespace

int run_env_check(const EnvCheckArguments& arguments, InterruptWatch& interrupts) {
  const RunFile file = read_run_file(arguments.run);
  if (arguments.run.dry_run) {
    fmt::print("{}", file.resolved);
    return kExitDone;
  }
  const EnvironmentReport report = check_environment_of(file.config, arguments.episodes, interrupts);
  FigureReport figures;
  for (const FigureReport::Figure& figure : report.figures) figures.add(figure);
  fmt::print("{}", report.text());
  write_figures(figures, arguments.run.json);
  return report.problems.empty() ? kExitDone : kExitFailed;
}

int run_env_serve(const EnvServeArguments& arguments) {
  EnvironmentConfig config;
  ConfigReader reader(config);
  reader.set("kind=" + arguments.name);
  for (const std::string& assignment : arguments.assignments) reader.set(arguments.name + "." + assignment);
  RealExecutor executor;
  Pool input({.threads = 1, .name = "input"});
  Pool blocking({.threads = 16, .name = "world", .abandon_after = std::chrono::seconds(2)});
  const std::unique_ptr<EnvironmentKind> kind = make_environment_kind(config);
  run(executor, kind->open());
  run(executor, serve(&executor, kind.get(), arguments.name, &input, &blocking), {}, "serve");
  return kExitDone;
}

}  // namespace stoker
