#include "engine/request_check.h"

#include <cmath>

#include <fmt/core.h>

namespace stoker {

void validate(const SamplingParameters& parameters) {
  const float temperature = parameters.temperature;
  if (temperature != 0 && !(temperature >= kMinTemperature && std::isfinite(temperature))) {
    throw input_error(fmt::format(
        "The sampling temperature is {}; it must be 0 (greedy) or a finite number of at least {}.",
        temperature, kMinTemperature));
  }
  if (parameters.top_k < 0) {
    throw input_error(
        fmt::format("top_k is {}; it must be at least 0 (0 switches it off).", parameters.top_k));
  }
  if (!(parameters.top_p > 0 && parameters.top_p <= 1)) {
    throw input_error(
        fmt::format("top_p is {}; it must be above 0 and at most 1 (1 switches it off).", parameters.top_p));
  }
  if (!(parameters.min_p >= 0 && parameters.min_p <= 1)) {
    throw input_error(
        fmt::format("min_p is {}; it must lie in [0, 1] (0 switches it off).", parameters.min_p));
  }
  if (!(parameters.repetition_penalty > 0 && std::isfinite(parameters.repetition_penalty))) {
    throw input_error(fmt::format("repetition_penalty is {}; it must be above 0 (1 switches it off).",
                                  parameters.repetition_penalty));
  }
  const auto finite = [](const char* name, float value) {
    if (!std::isfinite(value)) throw input_error(fmt::format("{} is {}; it must be finite.", name, value));
  };
  finite("presence_penalty", parameters.presence_penalty);
  finite("frequency_penalty", parameters.frequency_penalty);
  for (const LogitBias& bias : parameters.logit_bias) {
    finite(fmt::format("The logit bias of token {}", bias.id).c_str(), bias.bias);
  }
  if (parameters.top_log_probabilities < 0) {
    throw input_error(
        fmt::format("top_log_probabilities is {}; it must be at least 0.", parameters.top_log_probabilities));
  }
}

std::optional<Failure> check_request(const GenerateRequest& request) {
  if (request.tokens.empty()) {
    throw internal_error("A generate request has no context tokens; its prompt must hold at least one.");
  }
  validate(request.sampling);
  if (request.stop.max_tokens < 1) {
    return Failure{FailureClass::kLimit, "max_tokens",
                   fmt::format("The request allows {} new tokens; it must allow at least one.",
                               request.stop.max_tokens)};
  }
  return std::nullopt;
}

Failure stale_version(int64_t offered, int64_t current) {
  return Failure{FailureClass::kInfrastructure, "stale_version",
                 fmt::format("Weights of version {} were published while version {} serves; versions may not "
                             "go back.",
                             offered, current)};
}

}  // namespace stoker
