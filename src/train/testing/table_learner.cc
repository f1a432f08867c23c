#include "train/testing/table_learner.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "base/error.h"
#include "base/file.h"

namespace stoker::testing {
namespace {

constexpr const char* kByLast = "lm_head.weight";  // [V, V]: logit of a row's token after the column's token
constexpr const char* kBySum =
    "model.embed_tokens.weight";  // [V, V]: likewise by the sum of the context, mod V

size_t offset_of(const Weights& weights, const char* name) {
  return static_cast<size_t>(weights.tensor(name).data() - weights.values().data());
}

// What a prediction's logits are read from.
struct Columns {
  int32_t last = 0;
  int32_t sum = 0;
};

Columns columns(std::span<const int32_t> context, int32_t vocabulary) {
  int64_t sum = 0;
  for (int32_t token : context) sum += token;
  return {context.back(), static_cast<int32_t>(sum % vocabulary)};
}

std::vector<int32_t> context_of(const Batch& batch, int64_t prediction) {
  std::vector<std::vector<int32_t>> parts;
  int32_t segment = batch.segment[prediction];
  const auto& own = batch.segments.at(segment).tokens;
  parts.emplace_back(own.begin(), own.begin() + batch.offset[prediction] + 1);
  for (int32_t parent = batch.segments[segment].parent; parent >= 0; parent = batch.segments[parent].parent) {
    parts.push_back(batch.segments.at(parent).tokens);
  }
  std::vector<int32_t> context;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    context.insert(context.end(), part->begin(), part->end());
  return context;
}

std::vector<double> log_softmax(const Weights& weights, Columns at, float temperature) {
  int32_t vocabulary = weights.config().vocab_size;
  std::span<const float> by_last = weights.tensor(kByLast), by_sum = weights.tensor(kBySum);
  std::vector<double> logits(vocabulary);
  double maximum = -1e300;
  for (int32_t id = 0; id < vocabulary; ++id) {
    logits[id] = (by_last[id * vocabulary + at.last] + by_sum[id * vocabulary + at.sum]) / temperature;
    maximum = std::max(maximum, logits[id]);
  }
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - maximum);
  for (double& logit : logits) logit -= maximum + std::log(sum);
  return logits;
}

}  // namespace

struct TableLearner::TableTape final : Tape {
  Batch batch;
};

ModelConfig table_config(int32_t vocabulary) {
  ModelConfig config;
  config.model_type = "llama";
  config.vocab_size = vocabulary;
  config.hidden_size = vocabulary;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 1;
  config.num_key_value_heads = 1;
  config.head_dim = 2;
  config.intermediate_size = 1;
  config.max_position_embeddings = 512;
  return config;
}

Weights table_weights(int32_t vocabulary, uint64_t seed) {
  return initialize_weights(table_config(vocabulary), seed);
}

std::vector<float> table_log_probabilities(const Weights& weights, std::span<const int32_t> context,
                                           float temperature) {
  std::vector<double> exact =
      log_softmax(weights, columns(context, weights.config().vocab_size), temperature);
  return {exact.begin(), exact.end()};
}

TableLearner::TableLearner(Weights weights, OptimizerOptions options)
    : options_(options),
      weights_(std::move(weights)),
      gradient_(weights_.values().size(), 0.0),
      momentum_(weights_.values().size(), 0.0f) {}

Task<Scores> TableLearner::score(const Batch& batch, WeightsPtr weights) {
  const Weights& used = weights ? *weights : weights_;
  Scores scores;
  for (int64_t n = 0; n < batch.prediction_count(); ++n) {
    std::vector<int32_t> context = context_of(batch, n);
    std::vector<double> all =
        log_softmax(used, columns(context, used.config().vocab_size), batch.temperature[n]);
    scores.log_probability.push_back(static_cast<float>(all[batch.target[n]]));
    double entropy = 0;
    for (double log_probability : all) entropy -= std::exp(log_probability) * log_probability;
    scores.entropy.push_back(static_cast<float>(entropy));
  }
  co_return scores;
}

Task<ForwardResult> TableLearner::forward(const Batch& batch) {
  for (const Segment& segment : batch.segments) forward_tokens += static_cast<int64_t>(segment.tokens.size());
  auto tape = std::make_unique<TableTape>();
  tape->batch = batch;
  Scores scores = co_await score(batch, nullptr);
  co_return ForwardResult{std::move(scores), std::move(tape)};
}

Task<> TableLearner::backward(std::unique_ptr<Tape> tape, const Coefficients& coefficients) {
  const Batch& batch = static_cast<TableTape&>(*tape).batch;
  int32_t vocabulary = config().vocab_size;
  size_t by_last = offset_of(weights_, kByLast), by_sum = offset_of(weights_, kBySum);
  for (int64_t n = 0; n < batch.prediction_count(); ++n) {
    Columns at = columns(context_of(batch, n), vocabulary);
    std::vector<double> all = log_softmax(weights_, at, batch.temperature[n]);
    for (int32_t id = 0; id < vocabulary; ++id) {
      double slope = ((id == batch.target[n] ? 1.0 : 0.0) - std::exp(all[id])) / batch.temperature[n] *
                     coefficients.log_probability.at(n);
      gradient_[by_last + id * vocabulary + at.last] += slope;
      gradient_[by_sum + id * vocabulary + at.sum] += slope;
    }
  }
  co_return;
}

Task<StepResult> TableLearner::step(double learning_rate) {
  double squares = 0;
  for (double value : gradient_) squares += value * value;
  double norm = std::sqrt(squares);
  double scale = options_.max_gradient_norm > 0 && norm > options_.max_gradient_norm
                     ? options_.max_gradient_norm / norm
                     : 1;
  for (size_t i = 0; i < gradient_.size(); ++i) {
    momentum_[i] = options_.beta1 * momentum_[i] + static_cast<float>(scale * gradient_[i]);
    weights_.values()[i] -= static_cast<float>(learning_rate) * momentum_[i];
    gradient_[i] = 0;
  }
  weights_.set_version(weights_.version() + 1);
  ++updates;
  co_return StepResult{weights_.version(), norm};
}

Task<WeightsPtr> TableLearner::snapshot() { co_return std::make_shared<const Weights>(weights_); }

void TableLearner::reset_optimizer(const OptimizerOptions& options) {
  options_ = options;
  std::fill(momentum_.begin(), momentum_.end(), 0.0f);
}

void TableLearner::save_optimizer(const std::filesystem::path& folder) const {
  std::string bytes(momentum_.size() * sizeof(float) + sizeof(int64_t), '\0');
  int64_t version = weights_.version();
  std::memcpy(bytes.data(), &version, sizeof version);
  std::memcpy(bytes.data() + sizeof version, momentum_.data(), momentum_.size() * sizeof(float));
  write_file_atomic(folder / "momentum.bin", bytes);
}

void TableLearner::restore(const Weights& weights, const std::filesystem::path& folder) {
  std::string bytes = read_file(folder / "momentum.bin");
  if (bytes.size() != momentum_.size() * sizeof(float) + sizeof(int64_t)) {
    throw input_error("momentum.bin does not fit the model.");
  }
  int64_t version = 0;
  std::memcpy(&version, bytes.data(), sizeof version);
  std::memcpy(momentum_.data(), bytes.data() + sizeof version, momentum_.size() * sizeof(float));
  weights_ = weights;
  weights_.set_version(version);
}

}  // namespace stoker::testing
