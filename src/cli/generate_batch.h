#pragma once

#include "async/task.h"
#include "cli/command.h"
#include "engine/native_engine.h"
#include "text/renderer.h"

namespace stoker {

// How the verb `generate` samples. Throws Error(kInput) for a --logit-bias that is not ID=NUMBER.
SamplingParameters sampling_of(const GenerateArguments& arguments);

// Answers all rows of arguments.batch ("prompt", "messages" or "tokens") side by side, and prints one object
// a row, in their order: text, ids, log-probabilities in both conventions, why it stopped.
Task<> generate_batch(const GenerateArguments& arguments, Engine& engine, const Renderer& renderer);

}  // namespace stoker
