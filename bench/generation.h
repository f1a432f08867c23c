#pragma once

#include <cstdint>
#include <utility>

#include "async/scope.h"
#include "async/task.h"
#include "base/error.h"
#include "engine/engine.h"

// What the benchmarks of generation ask an engine for.
namespace stoker {

class IgnoreTokens final : public TokenSink {
 public:
  void accept(const SampledToken&) override {}
};

inline Task<> generate_one(Engine& engine, GenerateRequest request, TokenSink& sink) {
  const Result<Completion> completion = co_await engine.generate(std::move(request), sink);
  if (!completion) throw internal_error(completion.failure().message);
}

// `count` requests at once, of `context` tokens each, that sample `new_tokens`.
inline Task<> generate_all(Engine& engine, int count, int context, int new_tokens) {
  IgnoreTokens sink;
  Scope scope(co_await current_executor(), co_await current_cancellation());
  for (int s = 0; s < count; ++s) {
    GenerateRequest request{.stop = {.max_tokens = new_tokens},
                            .stream = {.sample = static_cast<uint32_t>(s)}};
    for (int i = 0; i < context; ++i) request.tokens.push_back((s * 37 + i * 11) % 290);
    scope.spawn(generate_one(engine, std::move(request), sink));
  }
  co_await scope.join();
}

}  // namespace stoker
