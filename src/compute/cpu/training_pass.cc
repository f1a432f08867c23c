#include "compute/cpu/training_pass.h"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>
#include "base/error.h"
#include "compute/cpu/log_softmax.h"

namespace stoker::cpu {
namespace {
constexpr int kGrain = 6;  // rows that threads are given together
}

void TrainingPass::prepare(const Batch& batch, std::shared_ptr<const PackedWeights> weights, int vocabulary,
                           std::optional<Recompute> recompute) {
  weights_ = std::move(weights);
  vocabulary_ = vocabulary;
  recompute_ = recompute;
  lay_out_segments(batch);
  make_attention_tasks(weights_->shape, rows_);

  const int64_t n = batch.prediction_count();
  candidates_ = batch.candidates;
  targets_ = batch.target;
  predictions_.assign(n, {});
  for (int64_t i = 0; i < n; ++i) {
    predictions_[i].row = rows_.sequences[batch.segment[i]].first_row + batch.offset[i];
    predictions_[i].temperature = batch.temperature[i];
  }
  scores_.log_probability.assign(n * candidates_, 0.0f);
  scores_.entropy.assign(n, 0.0f);
  scores_.value.clear();
  lay_out_activations();
}

void TrainingPass::lay_out_segments(const Batch& batch) {
  const int count = static_cast<int>(batch.segments.size());
  rows_.token.clear(), rows_.position.clear(), rows_.slot.clear(), rows_.sequences.clear();
  trees_.clear();
  std::vector<int> root(count), tree(count), length(count);
  std::vector<int64_t> start(count);
  key_positions_ = 0;
  size_t run_count = 0;
  attention_work_ = 0;
  for (int s = 0; s < count; ++s) {
    const Segment& segment = batch.segments[s];
    const int tokens = static_cast<int>(segment.tokens.size());
    const int before = segment.parent < 0 ? 0 : length[segment.parent];
    length[s] = before + tokens;
    if (length[s] > weights_->config.max_position_embeddings) {
      throw input_error(fmt::format(
          "A training sequence has {} tokens; the model has {} positions (max_position_embeddings).",
          length[s], weights_->config.max_position_embeddings));
    }
    start[s] = key_positions_;
    key_positions_ += padded(tokens);
    rows_.sequences.push_back({rows_.count(), tokens, before, {}});
    rows_.token.insert(rows_.token.end(), segment.tokens.begin(), segment.tokens.end());
    for (int i = 0; i < tokens; ++i) rows_.position.push_back(before + i);
    if (segment.parent < 0) {
      tree[s] = static_cast<int>(trees_.size());
      trees_.push_back({});
    } else {
      tree[s] = tree[segment.parent];
    }
    trees_[tree[s]].segments.push_back(s);
    trees_[tree[s]].work += int64_t{tokens} * (2 * before + tokens) / 2 + 64;
    for (int a = s; a >= 0; a = batch.segments[a].parent) ++run_count;
  }
  rows_.one_layer = !keeps_attention();
  const int64_t layers = rows_.one_layer ? 1 : weights_->shape.layers;
  const int64_t elements = 2 * layers * key_positions_ * weights_->shape.kv_width;
  float* block = kv_.reserve(elements * bytes_of(weights_->type) / bytes_of(ComputeType::kFloat32));
  runs_.clear();
  runs_.reserve(run_count);
  for (int s = 0; s < count; ++s) {
    const size_t first = runs_.size();
    for (int a = s; a >= 0; a = batch.segments[a].parent) {
      runs_.push_back({block, key_positions_, static_cast<int>(start[a]),
                       static_cast<int>(batch.segments[a].tokens.size())});
    }
    std::reverse(runs_.begin() + static_cast<std::ptrdiff_t>(first), runs_.end());
    rows_.sequences[s].context = {runs_.data() + first, runs_.size() - first};
    for (int i = 0; i < rows_.sequences[s].rows; ++i) {
      rows_.slot.push_back({block, key_positions_, static_cast<int>(start[s]) + i});
    }
  }
  for (const Tree& t : trees_) attention_work_ += static_cast<double>(t.work);
}

void TrainingPass::lay_out_activations() {
  const DecoderShape& s = weights_->shape;
  const int64_t m = rows_.count();
  const bool keep = recompute_.has_value();
  const int64_t stream = m * s.hidden_padded;
  const int64_t attention = m * (s.qkv_width + 2 * s.query_width) + (keep ? padded(2 * m * s.heads) : 0);
  const int64_t mlp = keep ? (s.sandwich ? 3 : 1) * stream + 2 * m * s.ffn_padded : 0;
  layers_.assign(s.layers, {});
  normed_.reserve(static_cast<int64_t>(predictions_.size()) * s.hidden_padded);
  float* next = activations_.reserve((keep ? s.layers + 1 : 1) * stream +
                                     (keeps_attention() ? s.layers : 1) * attention +
                                     (keeps_mlp() ? s.layers : 1) * mlp);
  const auto take = [&next](int64_t count) {
    float* result = next;
    next += count;
    return result;
  };
  float* input = take(stream);
  for (int l = 0; l < s.layers; ++l) {
    // What is not kept lies where that of the first layer does.
    LayerActivations& a = layers_[l] = layers_.front();
    a.input = input;
    if (l == 0 || keeps_attention()) {
      a.qkv = take(m * s.qkv_width);
      a.query = take(m * s.query_width);
      a.attention = take(m * s.query_width);
      if (keep) a.softmax = take(padded(2 * m * s.heads));
    }
    if (!keep) {
      a.middle = a.output = input;
      continue;
    }
    if (l == 0 || keeps_mlp()) {
      if (s.sandwich) {
        a.attention_out = take(stream);
        a.mlp_out = take(stream);
      }
      a.middle = take(stream);
      a.gate_up = take(2 * m * s.ffn_padded);
    }
    a.output = input = take(stream);
  }
}

// Those of a layer in the forward pass: without what is written only for a backward pass and will be computed
// again.
LayerActivations TrainingPass::forward_activations(int layer) const {
  LayerActivations a = layers_[layer];
  if (!recompute_.has_value() || recompute_stages(layer) == 0) return a;
  a.softmax = nullptr;
  if (!keeps_mlp()) a.attention_out = a.mlp_out = a.gate_up = nullptr;
  return a;
}

int TrainingPass::recompute_stages(int layer) const {
  if (keeps_attention() || layer == weights_->shape.layers - 1) return 0;
  return keeps_mlp() ? 2 : 3;
}

void TrainingPass::recompute(int layer, int stage, Parallel& parallel) {
  const int threads = parallel.threads();
  give_scratch(threads);
  LayerActivations again = layers_[layer];
  again.output = nullptr;
  parallel.for_each(threads, [&](int t) {
    const Range range = part_of(rows(), threads, t, kGrain);
    if (stage == 0) {
      attention_inputs(*weights_, layer, rows_, range.begin, range.end, again, scratch_[t]);
    } else if (stage == 1) {
      const Range tasks = part_of_tasks(rows_, threads, t);
      attention(*weights_, layer, rows_, tasks.begin, tasks.end, again, scratch_[t]);
    } else {
      attention_outputs(*weights_, layer, range.begin, range.end, again, scratch_[t]);
    }
  });
}

double TrainingPass::recompute_cost() const {
  const DecoderShape& s = weights_->shape;
  if (keeps_attention()) return 0;
  const int64_t mlp = keeps_mlp() ? 0 : s.query_width + (s.sandwich ? 3 : 2) * s.ffn_padded;
  const double row = static_cast<double>(s.hidden_padded) * static_cast<double>(s.qkv_width + mlp);
  return 2 * (s.layers - 1) * (row * rows() + 2 * attention_work_ * static_cast<double>(s.query_width));
}

double TrainingPass::step_cost() const {
  const DecoderShape& s = weights_->shape;
  const double row = static_cast<double>(s.hidden_padded) * (s.qkv_width + s.query_width + 3 * s.ffn_padded);
  const double head = static_cast<double>(predictions_.size()) * s.hidden_padded * vocabulary_;
  return 2 * (s.layers * (row * rows() + 2 * attention_work_ * s.query_width) + head) / step_count();
}

void TrainingPass::give_scratch(int threads) {
  if (static_cast<int>(scratch_.size()) >= threads) return;
  scratch_.resize(threads);
  logits_.resize(threads);
}

void TrainingPass::run_step(int step, Parallel& parallel) {
  const int threads = parallel.threads();
  const DecoderShape& s = weights_->shape;
  give_scratch(threads);
  const int l = step / 2;
  if (l == s.layers && step % 2 == 1) {
    parallel.for_each(threads, [&](int t) {
      const Range range = part_of(static_cast<int>(predictions_.size()), threads, t, kGrain);
      head(range.begin, range.end, t);
    });
  } else if (step % 2 == 1) {
    const LayerActivations activations = forward_activations(l);
    parallel.for_each(threads, [&](int t) {
      const Range range = part_of_tasks(rows_, threads, t);
      attention(*weights_, l, rows_, range.begin, range.end, activations, scratch_[t]);
    });
  } else {
    const LayerActivations before = l > 0 ? forward_activations(l - 1) : LayerActivations{};
    parallel.for_each(threads, [&](int t) {
      const Range range = part_of(rows(), threads, t, kGrain);
      if (l == 0) embed(*weights_, rows_, range.begin, range.end, layers_[0].input);
      if (l > 0) attention_outputs(*weights_, l - 1, range.begin, range.end, before, scratch_[t]);
      if (l < s.layers)
        attention_inputs(*weights_, l, rows_, range.begin, range.end, layers_[l], scratch_[t]);
    });
  }
}

void TrainingPass::head(int begin, int end, int thread) {
  constexpr int kBlock = 48;
  const int64_t width = weights_->shape.hidden_padded;
  const int64_t stride = padded(vocabulary_);
  float* gathered = logits_[thread].reserve(kBlock * (width + stride));
  float* logits = gathered + kBlock * width;
  for (int block = begin; block < end; block += kBlock) {
    const int count = std::min(kBlock, end - block);
    for (int i = 0; i < count; ++i) {
      std::memcpy(gathered + i * width, hidden() + predictions_[block + i].row * width,
                  sizeof(float) * width);
    }
    language_model_head(*weights_, count, gathered, width, vocabulary_, normed_.data() + block * width,
                        logits, stride);
    for (int i = 0; i < count; ++i) {
      Prediction& prediction = predictions_[block + i];
      const LogSoftmax row({logits + i * stride, static_cast<size_t>(vocabulary_)}, prediction.temperature);
      prediction.statistics = row.statistics();
      prediction.log_sum = static_cast<float>(row.log_sum());
      prediction.entropy = scores_.entropy[block + i] = row.entropy();
      for (int64_t k = int64_t{block + i} * candidates_; k < int64_t{block + i + 1} * candidates_; ++k) {
        scores_.log_probability[k] = row.log_probability(targets_[k]);
      }
    }
  }
}

}  // namespace stoker::cpu
