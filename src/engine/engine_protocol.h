#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/native_engine.h"
#include "engine/weights_file.h"
#include "model/config.h"

namespace stoker {

// What an engine in a child process and its parent say to each other, one JSON object a line; both ends are
// the same program. Numbers of type float travel as the integer of their bits and texts as the hexadecimal
// digits of their bytes, so that everything arrives bit for bit.
//
// To the child, each with "do" and "id": start, generate, cancel, score, prepare, commit, ping. From it:
//
//   {"started":[7]}                                  requests 7 has its place in the batch
//   {"tokens":[[7,id,bits,version,mixed,bits,[]]]}   tokens of one decode step, any number of requests
//   {"id":7,"result":{...}}                          the end of what was asked as 7; or "failure"; or
//   "error",
//                                                    thrown to the asker if its kind is input, and else the
//                                                    end of the child
//
// Decoders throw Error(kInput) for what is none of these.

// What a child needs to know to serve, beside the weights.
struct EngineStart {
  ModelConfig config;
  std::filesystem::path tokenizer;  // what load_tokenizer takes; empty: an engine without one
  int threads = 1;
  NativeEngineOptions options;  // without the tokenizer
};

struct EngineTokenMessage {
  int64_t request = 0;
  SampledToken token;
};

Json to_json(const EngineStart& start);
EngineStart engine_start_from_json(const Json& json);

Json to_json(const WeightsFile& file);
WeightsFile weights_file_from_json(const Json& json);

// Without the mask, which is code.
Json to_json(const GenerateRequest& request);
GenerateRequest generate_request_from_json(const Json& json);

// Appends the element of "tokens" to the text of the list.
void append_token(std::string& list, int64_t request, const SampledToken& token);
EngineTokenMessage engine_token_from_json(const Json& json);

Json to_json(const Completion& completion);
Completion completion_from_json(const Json& json);

Json to_json(const EngineStatistics& statistics);
EngineStatistics engine_statistics_from_json(const Json& json);

Json to_json(const EngineCapabilities& capabilities);
EngineCapabilities engine_capabilities_from_json(const Json& json);

Json to_json(const Failure& failure);
Failure failure_from_json(const Json& json);

// An Error keeps its kind; anything else becomes Error(kInternal), and memory that ran out Error(kResource).
Json error_to_json(const std::exception_ptr& exception);
Error error_from_json(const Json& json);

Json floats_to_json(const std::vector<float>& values);
std::vector<float> floats_from_json(const Json& json);

Json tokens_to_json(const std::vector<int32_t>& tokens);
std::vector<int32_t> tokens_from_json(const Json& json);

Json float_to_json(float value);
float float_from_json(const Json& json);

}  // namespace stoker
