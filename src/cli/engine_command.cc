#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "async/cancellation.h"
#include "async/compute_pool.h"
#include "async/pool.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "cli/command.h"
#include "engine/engine_server.h"
#include "engine/native_engine.h"
#include "model/gguf_tokenizer.h"

namespace stoker {
namespace {

std::optional<std::string> read_command() {
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

// To the parent; when it is gone, the end of standard input says so.
void write_answer(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

Task<> serve(EngineServer* server, Pool* input) {
  std::exception_ptr failure;
  try {
    while (const std::optional<std::string> line = co_await input->run(read_command)) server->take(*line);
  } catch (...) {
    failure = std::current_exception();
  }
  co_await server->finish();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

int run_engine_serve() {
  RealExecutor executor;
  Pool input({.threads = 1, .name = "input"});
  Pool blocking({.threads = 1, .name = "weights"});
  std::optional<ComputePool> compute;  // the parent says of how many threads
  const auto make_engine = [&executor, &compute](const EngineStart& start, const WeightsPtr& weights) {
    compute.emplace(start.threads);
    NativeEngineOptions options = start.options;
    if (!start.tokenizer.empty()) options.tokenizer = load_tokenizer(start.tokenizer);
    return std::make_shared<NativeEngine>(executor, *compute, weights, options);
  };
  EngineServer server(executor, blocking, make_engine, write_answer);
  run(executor, serve(&server, &input), {}, "engine");
  return kExitDone;
}

}  // namespace stoker
