#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stoker {

struct LogitBias {
  int32_t id = 0;
  float bias = 0;
};

// How the next token is drawn. First the logits are changed, in the order of the members below the
// temperature's filters: penalties, biases, forbidden ids, a TokenMask. Then they are divided by the
// temperature, and top-k, top-p and min-p cut the support.
struct SamplingParameters {
  float temperature = 1.0f;  // 0: greedy (argmax, the lowest id among equals)
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0f;        // the smallest set whose mass reaches top_p, the crossing token included; 1: off
  float min_p = 0.0f;        // drops tokens under min_p times the largest probability; 0: off

  // Logits of ids that occur in the context, prompt included, are divided by it where they are positive and
  // multiplied where they are not (Keskar et al. 2019, section 4.1). 1: off.
  float repetition_penalty = 1.0f;
  // Subtracted from the logits of ids that were sampled in this turn: once, and for each time.
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::vector<LogitBias> logit_bias;      // added; those of one id add up
  std::vector<int32_t> forbidden_tokens;  // are never drawn

  int32_t top_log_probabilities = 0;  // likeliest ids to report with each token

  bool changes_logits() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0 ||
           !logit_bias.empty() || !forbidden_tokens.empty();
  }
};

// Says which ids may follow: constrained decoding. Asked for each token, from compute threads, for several
// requests at once; its answer must follow from its arguments alone, because a preempted or resumed request
// asks again.
class TokenMask {
 public:
  virtual ~TokenMask() = default;
  // `tokens`: the context and what was sampled since; the last `sampled` of them in this turn. `allowed` [V]
  // comes as ones; zeros are what must not follow. Throws nothing.
  virtual void forbid(std::span<const int32_t> tokens, int32_t sampled, std::span<uint8_t> allowed) const = 0;
};

struct TokenLogProbability {
  int32_t id = 0;
  float log_probability = 0;
  bool operator==(const TokenLogProbability&) const = default;
};

}  // namespace stoker
