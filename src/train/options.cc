#include "train/options.h"

#include <fmt/format.h>

#include "base/error.h"

namespace stoker {
namespace {

Error unknown_choice(const char* key, const std::string& value) {
  return input_error(fmt::format("{} is \"{}\", which is none of its choices.", key, value));
}

}  // namespace

OptimizerOptions optimizer_options(const OptimizerConfig& config) {
  return {.beta1 = static_cast<float>(config.beta1),
          .beta2 = static_cast<float>(config.beta2),
          .epsilon = static_cast<float>(config.epsilon),
          .weight_decay = static_cast<float>(config.weight_decay),
          .max_gradient_norm = static_cast<float>(config.max_gradient_norm)};
}

LearningRateSchedule learning_rate_schedule(const OptimizerConfig& config, int64_t total_steps) {
  return {.shape = learning_rate_shape_from_string(config.schedule),
          .peak = config.learning_rate,
          .warmup_steps = config.warmup_steps,
          .total_steps = total_steps,
          .final_fraction = config.final_fraction};
}

BatchBuilderOptions batch_builder_options(const AlgorithmConfig& config, double temperature,
                                          int64_t micro_batch_tokens) {
  BatchBuilderOptions options{.advantage_epsilon = config.advantage_epsilon,
                              .mask_truncated = config.mask_truncated,
                              .temperature = static_cast<float>(temperature),
                              .micro_batch_tokens = micro_batch_tokens};
  if (config.advantage_scale == "group") {
    options.advantage_scale = AdvantageScale::kGroup;
  } else if (config.advantage_scale == "batch") {
    options.advantage_scale = AdvantageScale::kBatch;
  } else if (config.advantage_scale == "none") {
    options.advantage_scale = AdvantageScale::kNone;
  } else {
    throw unknown_choice("advantage_scale", config.advantage_scale);
  }
  if (config.loss_aggregation == "token-mean") {
    options.aggregation = LossAggregation::kTokenMean;
  } else if (config.loss_aggregation == "sequence-mean") {
    options.aggregation = LossAggregation::kSequenceMean;
  } else {
    throw unknown_choice("loss_aggregation", config.loss_aggregation);
  }
  if (config.zero_variance == "skip") {
    options.zero_variance = ZeroVariance::kSkip;
  } else if (config.zero_variance == "train") {
    options.zero_variance = ZeroVariance::kTrain;
  } else if (config.zero_variance == "drop") {
    options.zero_variance = ZeroVariance::kDrop;
  } else {
    throw unknown_choice("zero_variance", config.zero_variance);
  }
  return options;
}

PolicyLossOptions policy_loss_options(const AlgorithmConfig& config) {
  return {.clip_low = config.clip_low, .clip_high = config.clip_high};
}

}  // namespace stoker
