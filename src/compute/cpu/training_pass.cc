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
                           bool keep) {
  weights_ = std::move(weights);
  vocabulary_ = vocabulary;
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
  lay_out_activations(keep);
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
  const int64_t elements = 2 * weights_->shape.layers * key_positions_ * weights_->shape.kv_width;
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

void TrainingPass::lay_out_activations(bool keep) {
  const DecoderShape& s = weights_->shape;
  const int64_t m = rows_.count();
  const int64_t stream = m * s.hidden_padded;
  const int64_t kept = m * (s.qkv_width + 2 * s.query_width) + padded(2 * m * s.heads) +
                       (s.sandwich ? 3 : 1) * stream + 2 * m * s.ffn_padded;
  const int64_t shared = m * (s.qkv_width + 2 * s.query_width);
  layers_.assign(s.layers, {});
  normed_.reserve(static_cast<int64_t>(predictions_.size()) * s.hidden_padded);
  float* next = activations_.reserve(keep ? s.layers * (kept + stream) + stream : shared + stream);
  const auto take = [&next](int64_t count) {
    float* result = next;
    next += count;
    return result;
  };
  float* input = take(stream);
  for (LayerActivations& a : layers_) {
    if (!keep && &a != &layers_.front()) {
      a = layers_.front();
      continue;
    }
    a.input = input;
    a.qkv = take(m * s.qkv_width);
    a.query = take(m * s.query_width);
    a.attention = take(m * s.query_width);
    if (keep) {
      a.softmax = take(padded(2 * m * s.heads));
      if (s.sandwich) {
        a.attention_out = take(stream);
        a.mlp_out = take(stream);
      }
      a.middle = take(stream);
      a.gate_up = take(2 * m * s.ffn_padded);
      a.output = input = take(stream);
    } else {
      a.middle = a.output = input;
    }
  }
}

double TrainingPass::step_cost() const {
  const DecoderShape& s = weights_->shape;
  const double row = static_cast<double>(s.hidden_padded) * (s.qkv_width + s.query_width + 3 * s.ffn_padded);
  const double head = static_cast<double>(predictions_.size()) * s.hidden_padded * vocabulary_;
  return 2 * (s.layers * (row * rows() + 2 * attention_work_ * s.query_width) + head) / step_count();
}

void TrainingPass::run_step(int step, Parallel& parallel) {
  const int threads = parallel.threads();
  const DecoderShape& s = weights_->shape;
  if (static_cast<int>(scratch_.size()) < threads) {
    scratch_.resize(threads);
    logits_.resize(threads);
  }
  const int l = step / 2;
  if (l == s.layers && step % 2 == 1) {
    parallel.for_each(threads, [&](int t) {
      const Range range = part_of(static_cast<int>(predictions_.size()), threads, t, kGrain);
      head(range.begin, range.end, t);
    });
  } else if (step % 2 == 1) {
    parallel.for_each(threads, [&](int t) {
      const Range range = part_of_tasks(rows_, threads, t);
      attention(*weights_, l, rows_, range.begin, range.end, layers_[l], scratch_[t]);
    });
  } else {
    parallel.for_each(threads, [&](int t) {
      const Range range = part_of(rows(), threads, t, kGrain);
      if (l == 0) embed(*weights_, rows_, range.begin, range.end, layers_[0].input);
      if (l > 0) attention_outputs(*weights_, l - 1, range.begin, range.end, layers_[l - 1], scratch_[t]);
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
