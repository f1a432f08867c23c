#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/core.h>

#include "compute/cpu/decoder.h"
#include "compute/cpu/kernels.h"
#include "compute/cpu/log_softmax.h"

namespace stoker {
namespace {

// Ids whose weights are summed before the next running sum is looked at.
constexpr int32_t kStride = 64;

Failure not_finite(std::span<const float> logits) {
  for (size_t id = 0; id < logits.size(); ++id) {
    if (std::isnan(logits[id]) || logits[id] == std::numeric_limits<float>::infinity()) {
      return Failure{
          FailureClass::kInfrastructure, "logits_not_finite",
          fmt::format("The model's logit of token {} is {}; the weights or the training that made them "
                      "are broken.",
                      id, logits[id])};
    }
  }
  return Failure{
      FailureClass::kInfrastructure, "logits_not_finite",
      fmt::format("None of the model's {} logits is finite; the weights or the training that made them "
                  "are broken.",
                  logits.size())};
}

// The largest logit; empty unless every logit is finite or -infinity and one is finite.
std::optional<float> finite_maximum(std::span<const float> logits) {
  float largest = -std::numeric_limits<float>::infinity();
  bool usable = true;
  for (float logit : logits) {
    usable &= logit < std::numeric_limits<float>::infinity();  // false for NaN
    largest = logit > largest ? logit : largest;
  }
  if (!usable || largest == -std::numeric_limits<float>::infinity()) return std::nullopt;
  return largest;
}

// The `count` likeliest ids, the lower one first among equals.
std::vector<TokenLogProbability> likeliest(const cpu::LogSoftmax& softmax, std::span<const float> logits,
                                           int32_t count) {
  std::vector<int32_t> order(logits.size());
  for (size_t id = 0; id < order.size(); ++id) order[id] = static_cast<int32_t>(id);
  const auto end = order.begin() + std::min<std::ptrdiff_t>(count, std::ssize(order));
  std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  std::vector<TokenLogProbability> top;
  for (auto id = order.begin(); id != end; ++id) top.push_back({*id, softmax.log_probability(*id)});
  return top;
}

}  // namespace

Result<SampledId> Sampler::sample(std::span<const float> logits, const SamplingParameters& parameters,
                                  double uniform, const SamplingContext& context) {
  std::optional<float> largest = finite_maximum(logits);
  if (!largest) return not_finite(logits);
  std::span<const float> used = logits;
  if (parameters.changes_logits() || context.mask != nullptr) {
    used = change_logits(logits, parameters, context);
    largest = finite_maximum(used);
    if (!largest) {
      return Failure{FailureClass::kPolicy, "no_token_allowed",
                     "Forbidden tokens, biases or the token mask leave no token that may follow; allow one."};
    }
  }
  const bool greedy = parameters.temperature == 0;
  const bool filtered = parameters.top_k > 0 || parameters.top_p < 1 || parameters.min_p > 0;
  SampledId result;
  if (greedy) {
    result.id = static_cast<int32_t>(std::find(used.begin(), used.end(), *largest) - used.begin());
  } else {
    weigh(used, parameters.temperature);
    if (filtered) keep_heaviest(parameters);
    result.id = filtered ? draw_from_kept(uniform) : draw_from_all(uniform);
  }
  const cpu::LogSoftmax softmax(logits, greedy ? 1.0f : parameters.temperature);
  result.log_probability = softmax.log_probability(result.id);
  if (filtered && !greedy) {
    result.drawn_log_probability = kept_log_probability(result.id);
  } else if (!greedy) {
    result.drawn_log_probability = used.data() == logits.data()
                                       ? result.log_probability
                                       : cpu::log_probability(used, parameters.temperature, result.id);
  }
  if (parameters.top_log_probabilities > 0) {
    result.top = likeliest(softmax, logits, parameters.top_log_probabilities);
  }
  return result;
}

std::span<const float> Sampler::change_logits(std::span<const float> logits,
                                              const SamplingParameters& parameters,
                                              const SamplingContext& context) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  changed_.assign(logits.begin(), logits.end());
  penalize(parameters, context);
  const auto known = [&](int32_t id) { return id >= 0 && static_cast<size_t>(id) < changed_.size(); };
  for (const LogitBias& bias : parameters.logit_bias) {
    if (known(bias.id)) changed_[bias.id] += bias.bias;
  }
  for (const int32_t id : parameters.forbidden_tokens) {
    if (known(id)) changed_[id] = kNever;
  }
  if (context.mask != nullptr) {
    allowed_.assign(changed_.size(), 1);
    context.mask->forbid(context.tokens, context.sampled, allowed_);
    for (size_t id = 0; id < changed_.size(); ++id) {
      if (allowed_[id] == 0) changed_[id] = kNever;
    }
  }
  return changed_;
}

// Each id once, however often it occurs.
void Sampler::penalize(const SamplingParameters& parameters, const SamplingContext& context) {
  uses_.resize(changed_.size());
  const auto each_known = [&](std::span<const int32_t> tokens, auto visit) {
    for (const int32_t id : tokens) {
      if (id >= 0 && static_cast<size_t>(id) < changed_.size()) visit(changed_[id], uses_[id]);
    }
  };
  if (parameters.repetition_penalty != 1) {
    each_known(context.tokens, [&](float& logit, int32_t& uses) {
      if (uses++ > 0) return;
      logit = logit > 0 ? logit / parameters.repetition_penalty : logit * parameters.repetition_penalty;
    });
    each_known(context.tokens, [](float&, int32_t& uses) { uses = 0; });
  }
  if (parameters.presence_penalty == 0 && parameters.frequency_penalty == 0) return;
  const std::span<const int32_t> sampled = context.tokens.last(static_cast<size_t>(context.sampled));
  each_known(sampled, [](float&, int32_t& uses) { ++uses; });
  each_known(sampled, [&](float& logit, int32_t& uses) {
    if (uses > 0) {
      logit -= parameters.presence_penalty + parameters.frequency_penalty * static_cast<float>(uses);
    }
    uses = 0;
  });
}

float Sampler::kept_log_probability(int32_t id) const {
  double total = 0;
  for (const int32_t kept : kept_) total += weights_[kept];
  return static_cast<float>(cpu::natural_logarithm(weights_[id] / total));
}

void Sampler::weigh(std::span<const float> logits, float temperature) {
  count_ = static_cast<int32_t>(logits.size());
  const auto padded = static_cast<size_t>(cpu::padded(count_));
  if (weights_.size() < padded) weights_.resize(padded);
  std::copy(logits.begin(), logits.end(), weights_.begin());
  cpu::kernels().softmax_row(weights_.data(), count_, static_cast<int>(padded), 1.0f / temperature);
}

int32_t Sampler::draw_from_all(double uniform) const {
  const auto stride_sum = [this](int32_t begin) {
    const int32_t end = std::min(begin + kStride, count_);
    double sums[4] = {0, 0, 0, 0};  // four chains, so that the additions overlap
    int32_t id = begin;
    for (; id + 4 <= end; id += 4) {
      for (int32_t lane = 0; lane < 4; ++lane) sums[lane] += weights_[id + lane];
    }
    for (; id < end; ++id) sums[id % 4] += weights_[id];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  };
  double total = 0;
  for (int32_t begin = 0; begin < count_; begin += kStride) total += stride_sum(begin);
  const double target = uniform * total;
  double sum = 0;
  for (int32_t begin = 0; begin < count_; begin += kStride) {
    const double mass = stride_sum(begin);
    if (sum + mass <= target) {
      sum += mass;
      continue;
    }
    // Added one by one the stride may come out a rounding error below the target: then it is its last id.
    int32_t last = begin;
    for (int32_t id = begin; id < std::min(begin + kStride, count_); ++id) {
      if (weights_[id] == 0) continue;
      last = id;
      sum += weights_[id];
      if (sum > target) break;
    }
    return last;
  }
  throw internal_error("The uniform draw of a token lies outside [0, 1).");
}

void Sampler::keep_heaviest(const SamplingParameters& parameters) {
  kept_.clear();
  for (int32_t id = 0; id < count_; ++id) {
    if (weights_[id] > 0) kept_.push_back(id);
  }
  const auto lighter = [this](int32_t a, int32_t b) {
    return weights_[a] != weights_[b] ? weights_[a] < weights_[b] : a > b;
  };
  const auto heavier = [&lighter](int32_t a, int32_t b) { return lighter(b, a); };
  if (parameters.top_k > 0 && parameters.top_k < static_cast<int32_t>(kept_.size())) {
    std::nth_element(kept_.begin(), kept_.begin() + parameters.top_k, kept_.end(), heavier);
    kept_.resize(static_cast<size_t>(parameters.top_k));
    std::sort(kept_.begin(), kept_.end());
  }
  if (parameters.top_p < 1) {
    double total = 0;
    for (int32_t id : kept_) total += weights_[id];
    const double wanted = static_cast<double>(parameters.top_p) * total;
    // A heap gives the heaviest one by one; the kept ones collect behind it, in descending order from the
    // end.
    std::make_heap(kept_.begin(), kept_.end(), lighter);
    auto heap_end = kept_.end();
    double mass = 0;
    while (heap_end != kept_.begin() && mass < wanted) {
      std::pop_heap(kept_.begin(), heap_end, lighter);
      --heap_end;
      mass += weights_[*heap_end];
    }
    kept_.erase(kept_.begin(), heap_end);
    std::sort(kept_.begin(), kept_.end());
  }
  // The heaviest weight is exp(0) = 1, and every filter keeps it.
  if (parameters.min_p > 0) {
    std::erase_if(kept_, [&](int32_t id) { return weights_[id] < parameters.min_p; });
  }
}

int32_t Sampler::draw_from_kept(double uniform) const {
  double total = 0;
  for (int32_t id : kept_) total += weights_[id];
  const double target = uniform * total;
  double running = 0;
  for (int32_t id : kept_) {
    running += weights_[id];
    if (running > target) return id;
  }
  return kept_.back();
}

}  // namespace stoker
