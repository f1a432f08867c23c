#include "engine/engine_protocol.h"

#include <bit>
#include <iterator>
#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace stoker {
namespace {

template <typename Integer>
Integer integer_from_json(const Json& json) {
  const int64_t value = json.as_int();
  if (!std::in_range<Integer>(value)) throw input_error(fmt::format("{} is out of range.", value));
  return static_cast<Integer>(value);
}

int32_t int32_from_json(const Json& json) { return integer_from_json<int32_t>(json); }

// Texts may be cut within a character, and JSON holds Unicode only.
std::string to_hex(const std::string& bytes) {
  std::string digits;
  digits.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    fmt::format_to(std::back_inserter(digits), "{:02x}", static_cast<unsigned char>(byte));
  }
  return digits;
}

int digit_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  throw input_error(fmt::format("'{}' is no hexadecimal digit.", digit));
}

std::string from_hex(const std::string& digits) {
  if (digits.size() % 2 != 0) throw input_error("A text has an odd number of hexadecimal digits.");
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(digit_value(digits[i]) * 16 + digit_value(digits[i + 1])));
  }
  return bytes;
}

template <typename Function>
Json list_of(size_t count, Function element) {
  Json::Array list;
  list.reserve(count);
  for (size_t i = 0; i < count; ++i) list.push_back(element(i));
  return Json::array(std::move(list));
}

Json to_json(const SamplingParameters& sampling) {
  const std::vector<LogitBias>& biases = sampling.logit_bias;
  return Json::object(
      {{"temperature", float_to_json(sampling.temperature)},
       {"top_k", sampling.top_k},
       {"top_p", float_to_json(sampling.top_p)},
       {"min_p", float_to_json(sampling.min_p)},
       {"repetition_penalty", float_to_json(sampling.repetition_penalty)},
       {"presence_penalty", float_to_json(sampling.presence_penalty)},
       {"frequency_penalty", float_to_json(sampling.frequency_penalty)},
       {"logit_bias",
        list_of(biases.size(),
                [&](size_t i) { return Json::array({biases[i].id, float_to_json(biases[i].bias)}); })},
       {"forbidden_tokens", tokens_to_json(sampling.forbidden_tokens)},
       {"top_log_probabilities", sampling.top_log_probabilities}});
}

SamplingParameters sampling_from_json(const Json& json) {
  SamplingParameters sampling{.temperature = float_from_json(json.at("temperature")),
                              .top_k = int32_from_json(json.at("top_k")),
                              .top_p = float_from_json(json.at("top_p")),
                              .min_p = float_from_json(json.at("min_p")),
                              .repetition_penalty = float_from_json(json.at("repetition_penalty")),
                              .presence_penalty = float_from_json(json.at("presence_penalty")),
                              .frequency_penalty = float_from_json(json.at("frequency_penalty")),
                              .logit_bias = {},
                              .forbidden_tokens = tokens_from_json(json.at("forbidden_tokens")),
                              .top_log_probabilities = int32_from_json(json.at("top_log_probabilities"))};
  for (const Json& bias : json.at("logit_bias").as_array()) {
    const Json::Array& pair = bias.as_array();
    if (pair.size() != 2) throw input_error("A logit bias is a token and its number.");
    sampling.logit_bias.push_back({int32_from_json(pair[0]), float_from_json(pair[1])});
  }
  return sampling;
}

Json to_json(const StreamKey& stream) {
  return Json::array({stream.run_seed, static_cast<uint32_t>(stream.purpose), stream.task_ordinal,
                      stream.sample, stream.attempt, stream.turn});
}

StreamKey stream_from_json(const Json& json) {
  const Json::Array& list = json.as_array();
  if (list.size() != 6) throw input_error("A random stream has six numbers.");
  return {.run_seed = list[0].as_uint(),
          .purpose = static_cast<RandomPurpose>(integer_from_json<uint32_t>(list[1])),
          .task_ordinal = list[2].as_uint(),
          .sample = integer_from_json<uint32_t>(list[3]),
          .attempt = integer_from_json<uint32_t>(list[4]),
          .turn = integer_from_json<uint32_t>(list[5])};
}

// The numbers of EngineStatistics that an engine by itself counts, in one order for both ways.
template <typename Statistics, typename Visit>
void visit_counters(Statistics& statistics, Visit visit) {
  visit(statistics.waiting_requests);
  visit(statistics.running_requests);
  visit(statistics.sampled_tokens);
  visit(statistics.prefill_tokens);
  visit(statistics.cached_tokens);
  visit(statistics.decode_steps);
  visit(statistics.preemptions);
  visit(statistics.cache_blocks_used);
  visit(statistics.cache_blocks_total);
}

ErrorKind error_kind_from_name(const std::string& name) {
  if (name == "input") return ErrorKind::kInput;
  return name == "resource" ? ErrorKind::kResource : ErrorKind::kInternal;
}

Json error_json(const char* kind, const std::string& message) {
  return Json::object({{"kind", kind}, {"message", message}});
}

}  // namespace

Json float_to_json(float value) { return Json(std::bit_cast<uint32_t>(value)); }

float float_from_json(const Json& json) { return std::bit_cast<float>(integer_from_json<uint32_t>(json)); }

Json floats_to_json(const std::vector<float>& values) {
  return list_of(values.size(), [&](size_t i) { return float_to_json(values[i]); });
}

std::vector<float> floats_from_json(const Json& json) {
  std::vector<float> values;
  for (const Json& value : json.as_array()) values.push_back(float_from_json(value));
  return values;
}

Json tokens_to_json(const std::vector<int32_t>& tokens) {
  return list_of(tokens.size(), [&](size_t i) { return Json(tokens[i]); });
}

std::vector<int32_t> tokens_from_json(const Json& json) {
  std::vector<int32_t> tokens;
  for (const Json& token : json.as_array()) tokens.push_back(int32_from_json(token));
  return tokens;
}

Json to_json(const EngineStart& start) {
  const NativeEngineOptions& options = start.options;
  return Json::object({{"config", model_config_to_json(start.config)},
                       {"tokenizer", start.tokenizer.string()},
                       {"threads", start.threads},
                       {"max_batch", options.max_batch},
                       {"max_cache_bytes", options.max_cache_bytes},
                       {"prefill_chunk", options.prefill_chunk},
                       {"prefix_cache", options.prefix_cache},
                       {"recompute_cache", options.recompute_cache},
                       {"bfloat16", options.compute_type == ComputeType::kBfloat16},
                       {"vocabulary_size", options.vocabulary_size}});
}

EngineStart engine_start_from_json(const Json& json) {
  return {.config = model_config_from_json(json.at("config"), "the configuration of an engine's model"),
          .tokenizer = json.at("tokenizer").as_string(),
          .threads = integer_from_json<int>(json.at("threads")),
          .options = {
              .max_batch = int32_from_json(json.at("max_batch")),
              .max_cache_bytes = json.at("max_cache_bytes").as_int(),
              .prefill_chunk = int32_from_json(json.at("prefill_chunk")),
              .prefix_cache = json.at("prefix_cache").as_bool(),
              .recompute_cache = json.at("recompute_cache").as_bool(),
              .compute_type = json.at("bfloat16").as_bool() ? ComputeType::kBfloat16 : ComputeType::kFloat32,
              .vocabulary_size = int32_from_json(json.at("vocabulary_size")),
              .tokenizer = nullptr}};
}

Json to_json(const WeightsFile& file) {
  return Json::object({{"path", file.path.string()}, {"version", file.version}, {"digest", file.digest}});
}

WeightsFile weights_file_from_json(const Json& json) {
  return {.path = json.at("path").as_string(),
          .version = json.at("version").as_int(),
          .digest = json.at("digest").as_uint()};
}

Json to_json(const GenerateRequest& request) {
  const std::vector<std::string>& strings = request.stop.strings;
  return Json::object(
      {{"tokens", tokens_to_json(request.tokens)},
       {"sampling", to_json(request.sampling)},
       {"max_tokens", request.stop.max_tokens},
       {"stop_tokens", tokens_to_json(request.stop.tokens)},
       {"stop_strings", list_of(strings.size(), [&](size_t i) { return Json(to_hex(strings[i])); })},
       {"stream", to_json(request.stream)},
       {"first_position", request.first_position}});
}

GenerateRequest generate_request_from_json(const Json& json) {
  GenerateRequest request{.tokens = tokens_from_json(json.at("tokens")),
                          .sampling = sampling_from_json(json.at("sampling")),
                          .stop = {.max_tokens = int32_from_json(json.at("max_tokens")),
                                   .tokens = tokens_from_json(json.at("stop_tokens")),
                                   .strings = {}},
                          .stream = stream_from_json(json.at("stream")),
                          .first_position = json.at("first_position").as_uint()};
  for (const Json& string : json.at("stop_strings").as_array()) {
    request.stop.strings.push_back(from_hex(string.as_string()));
  }
  return request;
}

void append_token(std::string& list, int64_t request, const SampledToken& token) {
  const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  fmt::format_to(std::back_inserter(list), "{}[{},{},{},{},{},{},[", list.empty() ? "" : ",", request,
                 token.id, bits(token.log_probability), token.version, token.mixed ? 1 : 0,
                 bits(token.drawn_log_probability));
  for (size_t i = 0; i < token.top.size(); ++i) {
    fmt::format_to(std::back_inserter(list), "{}{},{}", i > 0 ? "," : "", token.top[i].id,
                   bits(token.top[i].log_probability));
  }
  list += "]]";
}

EngineTokenMessage engine_token_from_json(const Json& json) {
  const Json::Array& list = json.as_array();
  if (list.size() != 7) throw input_error("A token's message has seven parts.");
  EngineTokenMessage message{.request = list[0].as_int(),
                             .token = {.id = int32_from_json(list[1]),
                                       .log_probability = float_from_json(list[2]),
                                       .version = list[3].as_int(),
                                       .mixed = list[4].as_int() != 0,
                                       .drawn_log_probability = float_from_json(list[5])}};
  const Json::Array& top = list[6].as_array();
  if (top.size() % 2 != 0) throw input_error("The likeliest tokens come in pairs.");
  for (size_t i = 0; i < top.size(); i += 2) {
    message.token.top.push_back({int32_from_json(top[i]), float_from_json(top[i + 1])});
  }
  return message;
}

Json to_json(const Completion& completion) {
  return Json::object({{"stop_reason", static_cast<int>(completion.stop_reason)},
                       {"sampled_tokens", completion.sampled_tokens},
                       {"cached_tokens", completion.cached_tokens},
                       {"text", to_hex(completion.text)}});
}

Completion completion_from_json(const Json& json) {
  const int64_t reason = json.at("stop_reason").as_int();
  if (reason < 0 || reason > static_cast<int64_t>(StopReason::kAborted)) {
    throw input_error(fmt::format("There is no stop reason {}.", reason));
  }
  return {.stop_reason = static_cast<StopReason>(reason),
          .sampled_tokens = int32_from_json(json.at("sampled_tokens")),
          .cached_tokens = int32_from_json(json.at("cached_tokens")),
          .text = from_hex(json.at("text").as_string())};
}

Json to_json(const EngineStatistics& statistics) {
  Json::Array list;
  visit_counters(statistics, [&](int64_t counter) { list.emplace_back(counter); });
  list.emplace_back(statistics.busy_seconds);
  return Json::array(std::move(list));
}

EngineStatistics engine_statistics_from_json(const Json& json) {
  const Json::Array& list = json.as_array();
  EngineStatistics statistics;
  size_t next = 0;
  const auto element = [&]() -> const Json& {
    if (next == list.size()) throw input_error("The statistics of an engine are cut short.");
    return list[next++];
  };
  visit_counters(statistics, [&](int64_t& counter) { counter = element().as_int(); });
  statistics.busy_seconds = element().as_double();
  return statistics;
}

Json to_json(const EngineCapabilities& capabilities) {
  return Json::array({capabilities.keyed_random_streams, capabilities.per_token_versions,
                      capabilities.scoring, capabilities.prefix_cache, capabilities.exact_log_probabilities});
}

EngineCapabilities engine_capabilities_from_json(const Json& json) {
  const Json::Array& list = json.as_array();
  if (list.size() != 5) throw input_error("An engine has five capabilities.");
  return {.keyed_random_streams = list[0].as_bool(),
          .per_token_versions = list[1].as_bool(),
          .scoring = list[2].as_bool(),
          .prefix_cache = list[3].as_bool(),
          .exact_log_probabilities = list[4].as_bool()};
}

Json to_json(const Failure& failure) {
  return Json::object({{"class", to_string(failure.failure_class)},
                       {"reason", failure.reason},
                       {"message", failure.message}});
}

Failure failure_from_json(const Json& json) {
  const auto failure_class = failure_class_from_string(json.at("class").as_string());
  if (!failure_class) throw input_error("A failure has a class of no name that is known.");
  return {*failure_class, json.at("reason").as_string(), json.at("message").as_string()};
}

Json error_to_json(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    const char* kind = error.kind() == ErrorKind::kInput      ? "input"
                       : error.kind() == ErrorKind::kResource ? "resource"
                                                              : "internal";
    return error_json(kind, error.what());
  } catch (const std::bad_alloc&) {
    return error_json("resource", "An engine in a child process ran out of memory.");
  } catch (const std::exception& error) {
    return error_json("internal", error.what());
  }
}

Error error_from_json(const Json& json) {
  return Error(error_kind_from_name(json.at("kind").as_string()), json.at("message").as_string());
}

}  // namespace stoker
