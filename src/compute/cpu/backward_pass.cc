#include "compute/cpu/backward_pass.h"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>
#include "base/error.h"

namespace stoker::cpu {
namespace {

// Rows of a stage that pass together, and over which gradients of norms and biases are summed first. Fixed,
// because it decides the order of those sums.
constexpr int kRowBlock = 48;
// Floats of the gradient of logits that are held at a time.
constexpr int64_t kLogitFloats = int64_t{1} << 20;
constexpr int kLeastHeadChunk = 96;
// Of a layer, beside those that bring back its activations.
constexpr int kLayerSteps = 4;

int blocks_of(int rows) { return (rows + kRowBlock - 1) / kRowBlock; }

void require_length(const char* name, size_t length, size_t expected) {
  if (length == 0 || length == expected) return;
  throw internal_error(
      fmt::format("There are {} coefficients for {} {} numbers of the batch.", length, expected, name));
}

}  // namespace

BackwardPass::BackwardPass(const ModelConfig& config)
    : shape_(config), tensors_(weight_manifest(config), config) {}

void BackwardPass::prepare(TrainingPass& pass, const Coefficients& coefficients,
                           const BackwardWeights& weights, Weights& gradients) {
  const size_t n = pass.predictions().size();
  const size_t candidates = static_cast<size_t>(pass.candidates());
  require_length("log_probability", coefficients.log_probability.size(), n * candidates);
  require_length("entropy", coefficients.entropy.size(), n);
  require_length("value", coefficients.value.size(), 0);
  pass_ = &pass;
  coefficients_ = &coefficients;
  weights_ = &weights;
  gradients_ = &gradients;

  active_.clear();
  for (size_t i = 0; i < n; ++i) {
    bool used = !coefficients.entropy.empty() && coefficients.entropy[i] != 0;
    for (size_t k = 0; k < candidates && !coefficients.log_probability.empty(); ++k) {
      used = used || coefficients.log_probability[i * candidates + k] != 0;
    }
    if (used) active_.push_back(static_cast<int>(i));
  }
  const int64_t width = shape_.hidden_padded, logits = padded(pass.vocabulary());
  head_chunk_ =
      static_cast<int>(std::max<int64_t>(kLeastHeadChunk, kLogitFloats / logits / kRowBlock * kRowBlock));
  head_chunk_ = std::min(head_chunk_, blocks_of(static_cast<int>(active_.size())) * kRowBlock);
  head_chunks_ = head_chunk_ == 0 ? 0 : (static_cast<int>(active_.size()) + head_chunk_ - 1) / head_chunk_;
  head_.reserve(head_chunk_ * (2 * width + logits) + blocks_of(head_chunk_) * width);
  lay_out();
  std::memset(dx_, 0, sizeof(float) * pass.rows() * width);
}

void BackwardPass::lay_out() {
  const int64_t m = pass_->rows(), p = pass_->key_positions();
  const DecoderShape& s = shape_;
  partial_stride_ = sandwich_partials() + (s.sandwich ? 2 * s.hidden_padded : 0);
  const int64_t sandwich = s.sandwich ? m * s.hidden_padded : 0;
  struct Part {
    float** pointer;
    int64_t count;
  };
  const Part parts[] = {{&dx_, m * s.hidden_padded},
                        {&dx_next_, m * s.hidden_padded},
                        {&dmiddle_, m * s.hidden_padded},
                        {&normed_attention_, m * s.hidden_padded},
                        {&normed_mlp_, m * s.hidden_padded},
                        {&activation_, m * s.ffn_padded},
                        {&dquery_, m * s.query_width},
                        {&dqkv_, m * s.qkv_width},
                        {&delta_, padded(m * s.heads)},
                        {&key_rows_, p * s.kv_width},
                        {&value_panels_, p * s.kv_width},
                        {&dkey_, p * s.kv_width},
                        {&dvalue_, p * s.kv_width},
                        {&dmlp_out_, sandwich},
                        {&dattention_out_, sandwich},
                        {&partials_, (blocks_of(static_cast<int>(m)) + 1) * partial_stride_}};
  int64_t total = 0;
  for (const Part& part : parts) total += part.count;
  float* next = buffers_.reserve(total);
  for (const Part& part : parts) {
    *part.pointer = next;
    next += part.count;
  }
}

int BackwardPass::step_count() const {
  int count = 2 * head_chunks_ + 1;
  for (int l = 0; l < shape_.layers; ++l) count += pass_->recompute_stages(l) + kLayerSteps;
  return count;
}

double BackwardPass::step_cost() const {
  return (2 * pass_->step_cost() * pass_->step_count() + pass_->recompute_cost()) / std::max(1, step_count());
}

void BackwardPass::run_step(int step, Parallel& parallel) {
  const int threads = parallel.threads();
  if (static_cast<int>(scratch_.size()) < threads) scratch_.resize(threads);
  if (step < 2 * head_chunks_) {
    const int chunk = step / 2;
    const int count = std::min(head_chunk_, static_cast<int>(active_.size()) - chunk * head_chunk_);
    parallel.for_each(threads, [&](int t) {
      if (step % 2 == 0) {
        const Range range = part_of(count, threads, t, kRowBlock);
        head_rows(chunk, range.begin, range.end, t);
      } else {
        head_sums(chunk, count, t, threads);
      }
    });
    return;
  }
  step -= 2 * head_chunks_;
  int l = shape_.layers - 1;
  for (; l >= 0 && step >= pass_->recompute_stages(l) + kLayerSteps; --l) {
    step -= pass_->recompute_stages(l) + kLayerSteps;
  }
  if (l < 0) {
    parallel.for_each(threads, [&](int t) { embedding_backward(t, threads); });
    return;
  }
  const int recomputed = pass_->recompute_stages(l);
  if (step < recomputed) {
    pass_->recompute(l, step, parallel);
    return;
  }
  parallel.for_each(threads, [&](int t) { layer_step(l, step - recomputed, t, threads); });
  if (step - recomputed == kLayerSteps - 1) std::swap(dx_, dx_next_);
}

void BackwardPass::layer_step(int l, int step, int thread, int threads) {
  const Range range = part_of(pass_->rows(), threads, thread, kRowBlock);
  switch (step) {
    case 0:
      mlp_backward(l, range.begin, range.end, thread);
      break;
    case 1:
      attention_backward(l, thread, threads);
      break;
    case 2:
      projection_backward(l, range.begin, range.end, thread);
      break;
    default:
      layer_matrices(l, thread, threads);
      layer_vectors(l, thread, threads);
  }
}

// Logits again, their gradient, and its way back through the head and the final norm, for active predictions
// [begin, end) of a chunk.
void BackwardPass::head_rows(int chunk, int begin, int end, int thread) {
  const Kernels& k = kernels();
  const PackedWeights& w = pass_->weights();
  const int64_t width = shape_.hidden_padded;
  const int vocabulary = pass_->vocabulary();
  const int64_t logits_width = padded(vocabulary);
  const size_t candidates = static_cast<size_t>(pass_->candidates());
  float* normed = head_.data();
  float* dhidden = normed + head_chunk_ * width;
  float* logits = dhidden + head_chunk_ * width;
  float* partials = logits + head_chunk_ * logits_width;
  float* gathered = scratch_[thread].reserve(2 * kRowBlock * width + logits_width);
  float* dnormed = gathered + kRowBlock * width;
  float* capped = dnormed + kRowBlock * width;
  for (int block = begin; block < end; block += kRowBlock) {
    const int count = std::min(kRowBlock, end - block);
    float* own_logits = logits + block * logits_width;
    for (int i = 0; i < count; ++i) {
      const int n = active_[chunk * head_chunk_ + block + i];
      std::memcpy(normed + (block + i) * width, pass_->normed() + n * width, sizeof(float) * width);
      std::memcpy(gathered + i * width, pass_->hidden() + pass_->predictions()[n].row * width,
                  sizeof(float) * width);
    }
    k.matmul(count, w.head.depth, vocabulary, {normed + block * width, width, 1}, w.head.right(), own_logits,
             logits_width, Write::kStore);
    cap_logits(shape_, count, vocabulary, own_logits, logits_width);
    for (int i = 0; i < count; ++i) {
      const int n = active_[chunk * head_chunk_ + block + i];
      const TrainingPass::Prediction& prediction = pass_->predictions()[n];
      const float inverse_temperature = 1.0f / prediction.temperature;
      const float* coefficient = coefficients_->log_probability.data() + n * candidates;
      float sum = 0;
      if (!coefficients_->log_probability.empty()) {
        for (size_t c = 0; c < candidates; ++c) sum += coefficient[c];
      }
      const float entropy = coefficients_->entropy.empty() ? 0.0f : coefficients_->entropy[n];
      float* row = own_logits + i * logits_width;
      if (shape_.logit_cap != 0) std::memcpy(capped, row, sizeof(float) * vocabulary);
      k.logits_backward(vocabulary, row, prediction.statistics, prediction.log_sum,
                        {inverse_temperature, -sum, -entropy, prediction.entropy});
      for (size_t c = 0; c < candidates && !coefficients_->log_probability.empty(); ++c) {
        row[pass_->targets()[n * candidates + c]] += inverse_temperature * coefficient[c];
      }
      if (shape_.logit_cap != 0) {
        k.soft_cap_backward(vocabulary, 1.0f / shape_.logit_cap, shape_.logit_cap, capped, row);
      }
    }
    k.matmul(count, static_cast<int>(logits_width), weights_->head.columns, {own_logits, logits_width, 1},
             weights_->head.right(), dnormed, width, Write::kStore);
    float* partial = partials + block / kRowBlock * width;
    std::memset(partial, 0, sizeof(float) * width);
    std::memset(dhidden + block * width, 0, sizeof(float) * count * width);
    k.rms_norm_backward(count, shape_.hidden, gathered, width, w.final_norm.data(), shape_.epsilon, dnormed,
                        width, dhidden + block * width, dhidden + block * width, width, partial);
  }
}

// The head's weight gradient, the final norm's, and the hidden gradients into their rows, in order of
// predictions.
void BackwardPass::head_sums(int chunk, int count, int thread, int threads) {
  const int64_t width = shape_.hidden_padded;
  const int64_t logits_width = padded(pass_->vocabulary());
  const float* normed = head_.data();
  const float* dhidden = normed + head_chunk_ * width;
  const float* logits = dhidden + head_chunk_ * width;
  const float* partials = logits + head_chunk_ * logits_width;
  const WeightProduct product{
      logits,        logits_width,
      normed,        width,
      count,         shape_.hidden,
      shape_.hidden, {{0, pass_->vocabulary(), gradients_->tensor(tensors_.head).data()}}};
  multiply({&product, 1}, thread, threads);
  const Range columns = part_of(static_cast<int>(width), threads, thread, kLanes);
  for (int i = 0; i < count; ++i) {
    float* out = dx_ + pass_->predictions()[active_[chunk * head_chunk_ + i]].row * width;
    for (int j = columns.begin; j < columns.end; ++j) out[j] += dhidden[i * width + j];
  }
  const std::span<float> norm = gradients_->tensor(tensors_.final_norm);
  for (int b = 0; b < blocks_of(count); ++b) {
    for (int j = columns.begin; j < std::min(columns.end, shape_.hidden); ++j)
      norm[j] += partials[b * width + j];
  }
}

// Through the MLP and its norm, and on through the output projection: leaves the gradients of gate_up, of the
// stream after attention, and of the attention's output, and what the other steps of the layer need.
void BackwardPass::mlp_backward(int l, int begin, int end, int thread) {
  const Kernels& k = kernels();
  const DecoderShape& s = shape_;
  const PackedLayer& w = pass_->weights().layers[l];
  const BackwardLayer& back = weights_->layers[l];
  const LayerActivations& a = pass_->layer(l);
  const int64_t width = s.hidden_padded, gate_up_width = 2 * s.ffn_padded;
  const auto gated_backward = s.activation == Activation::kSilu ? k.swiglu_backward : k.geglu_backward;
  float* dnormed = scratch_[thread].reserve(kRowBlock * width);
  for (int block = begin; block < end; block += kRowBlock) {
    const int count = std::min(kRowBlock, end - block);
    const float* middle = a.middle + block * width;
    float* gate_up = a.gate_up + block * gate_up_width;
    float* activation = activation_ + block * s.ffn_padded;
    float* dmiddle = dmiddle_ + block * width;
    float* dquery = dquery_ + block * s.query_width;
    float* partial = partials_ + block / kRowBlock * partial_stride_;
    std::memset(partial, 0, sizeof(float) * partial_stride_);
    if (s.sandwich) {
      k.rms_norm_backward(count, s.hidden, a.mlp_out + block * width, width, w.post_mlp_norm.data(),
                          s.epsilon, dx_ + block * width, width, nullptr, dmlp_out_ + block * width, width,
                          partial + sandwich_partials() + width);
    }
    k.matmul(count, back.down.depth, back.down.columns, {mlp_out_gradient() + block * width, width, 1},
             back.down.right(), activation, s.ffn_padded, Write::kStore);
    gated_backward(count, s.ffn, gate_up, gate_up_width, activation, s.ffn_padded);
    k.matmul(count, back.gate_up.depth, back.gate_up.columns, {gate_up, gate_up_width, 1},
             back.gate_up.right(), dnormed, width, Write::kStore);
    k.rms_norm_backward(count, s.hidden, middle, width, w.mlp_norm.data(), s.epsilon, dnormed, width,
                        dx_ + block * width, dmiddle, width, partial + width);
    k.rms_norm(count, s.hidden, middle, width, w.mlp_norm.data(), s.epsilon, normed_mlp_ + block * width,
               width);
    if (s.sandwich) {
      k.rms_norm_backward(count, s.hidden, a.attention_out + block * width, width,
                          w.post_attention_norm.data(), s.epsilon, dmiddle, width, nullptr,
                          dattention_out_ + block * width, width, partial + sandwich_partials());
    }
    k.matmul(count, back.output.depth, back.output.columns,
             {attention_out_gradient() + block * width, width, 1}, back.output.right(), dquery, s.query_width,
             Write::kStore);
    for (int i = 0; i < count; ++i) prepare_attention_row(l, block + i);
  }
}

// Through rotation, QK-norm, the projections and the attention's norm; adds the residual path.
void BackwardPass::projection_backward(int l, int begin, int end, int thread) {
  const Kernels& k = kernels();
  const DecoderShape& s = shape_;
  const PackedLayer& w = pass_->weights().layers[l];
  const BackwardLayer& back = weights_->layers[l];
  const LayerActivations& a = pass_->layer(l);
  const int64_t width = s.hidden_padded;
  const float* q_norm = w.q_norm.empty() ? nullptr : w.q_norm.data();
  const float* k_norm = w.k_norm.empty() ? nullptr : w.k_norm.data();
  const int half = s.head_dim / 2;
  float* dnormed = scratch_[thread].reserve(kRowBlock * width);
  for (int block = begin; block < end; block += kRowBlock) {
    const int count = std::min(kRowBlock, end - block);
    float* partial = partials_ + block / kRowBlock * partial_stride_;
    float* dbias = partial + 2 * width + 2 * s.head_padded;
    for (int row = block; row < block + count; ++row) {
      const float* qkv = a.qkv + row * s.qkv_width;
      float* dqkv = dqkv_ + row * s.qkv_width;
      const float *cosine = w.rope->row(pass_->forward_rows().position[row]), *sine = cosine + half;
      const int64_t key = int64_t{pass_->forward_rows().slot[row].position} * s.kv_width;
      k.rotate_heads_backward(s.heads, s.head_dim, qkv, q_norm, s.epsilon, cosine, sine,
                              dquery_ + row * s.query_width, dqkv, partial + 2 * width);
      k.rotate_heads_backward(s.kv_heads, s.head_dim, qkv + s.query_width, k_norm, s.epsilon, cosine, sine,
                              dkey_ + key, dqkv + s.query_width, partial + 2 * width + s.head_padded);
      std::memcpy(dqkv + s.query_width + s.kv_width, dvalue_ + key, sizeof(float) * s.kv_width);
      if (!w.qkv_bias.empty()) k.add_bias(1, static_cast<int>(s.qkv_width), dqkv, dbias, s.qkv_width);
    }
    k.matmul(count, back.qkv.depth, back.qkv.columns, {dqkv_ + block * s.qkv_width, s.qkv_width, 1},
             back.qkv.right(), dnormed, width, Write::kStore);
    const float* input = a.input + block * width;
    float* dx = dx_next_ + block * width;
    k.rms_norm_backward(count, s.hidden, input, width, w.attention_norm.data(), s.epsilon, dnormed, width,
                        dmiddle_ + block * width, dx, width, partial);
    k.rms_norm(count, s.hidden, input, width, w.attention_norm.data(), s.epsilon,
               normed_attention_ + block * width, width);
  }
}

// Gradients of the layer's matrices.
void BackwardPass::layer_matrices(int l, int thread, int threads) {
  const DecoderShape& s = shape_;
  const LayerTensors& t = tensors_.layers[l];
  const LayerActivations& a = pass_->layer(l);
  const int m = pass_->rows();
  const auto gradient = [&](int tensor) { return gradients_->tensor(tensor).data(); };
  const int query_rows = s.heads * s.head_dim;
  std::vector<GradientRows> qkv;
  const auto add_heads = [&](int64_t from, int heads, float* out) {
    if (s.head_dim == s.head_padded) {
      qkv.push_back({from, heads * s.head_dim, out});
      return;
    }
    for (int h = 0; h < heads; ++h) {
      qkv.push_back({from + h * s.head_padded, s.head_dim, out + int64_t{h} * s.head_dim * s.hidden});
    }
  };
  add_heads(0, s.heads, gradient(t.q));
  add_heads(s.query_width, s.kv_heads, gradient(t.k));
  add_heads(s.query_width + s.kv_width, s.kv_heads, gradient(t.v));
  const int output_group = s.head_dim == s.head_padded ? query_rows : s.head_dim;
  const WeightProduct products[] = {
      {mlp_out_gradient(),
       s.hidden_padded,
       activation_,
       s.ffn_padded,
       m,
       s.ffn,
       s.ffn,
       {{0, s.hidden, gradient(t.down)}}},
      {a.gate_up,
       2 * s.ffn_padded,
       normed_mlp_,
       s.hidden_padded,
       m,
       s.hidden,
       s.hidden,
       {{0, s.ffn, gradient(t.gate)}, {s.ffn_padded, s.ffn, gradient(t.up)}}},
      {attention_out_gradient(),
       s.hidden_padded,
       a.attention,
       s.query_width,
       m,
       query_rows,
       output_group,
       {{0, s.hidden, gradient(t.output)}}},
      {dqkv_, s.qkv_width, normed_attention_, s.hidden_padded, m, s.hidden, s.hidden, std::move(qkv)},
  };
  multiply(products, thread, threads);
}

// Gradients of the layer's norms and biases: the sums over blocks of rows, in order.
void BackwardPass::layer_vectors(int l, int thread, int threads) {
  const DecoderShape& s = shape_;
  const LayerTensors& t = tensors_.layers[l];
  const int m = pass_->rows();
  const auto gradient = [&](int tensor) { return gradients_->tensor(tensor).data(); };
  const Range columns = part_of(static_cast<int>(partial_stride_), threads, thread, kLanes);
  float* sum = partials_ + blocks_of(m) * partial_stride_;
  for (int j = columns.begin; j < columns.end; ++j) sum[j] = 0;
  for (int b = 0; b < blocks_of(m); ++b) {
    for (int j = columns.begin; j < columns.end; ++j) sum[j] += partials_[b * partial_stride_ + j];
  }
  // Where a run of the partial sums goes: groups of `width` elements, padded in the source.
  const auto add = [&](int64_t from, int groups, int width, int tensor) {
    if (tensor < 0) return;
    for (int g = 0; g < groups; ++g) {
      for (int j = 0; j < width; ++j) {
        const int64_t source = from + g * padded(width) + j;
        if (source >= columns.begin && source < columns.end) gradient(tensor)[g * width + j] += sum[source];
      }
    }
  };
  const int64_t norms = 2 * s.hidden_padded, biases = norms + 2 * s.head_padded;
  add(0, 1, s.hidden, t.attention_norm);
  add(s.hidden_padded, 1, s.hidden, t.mlp_norm);
  add(norms, 1, s.head_dim, t.q_norm);
  add(norms + s.head_padded, 1, s.head_dim, t.k_norm);
  add(biases, s.heads, s.head_dim, t.q_bias);
  add(biases + s.query_width, s.kv_heads, s.head_dim, t.k_bias);
  add(biases + s.query_width + s.kv_width, s.kv_heads, s.head_dim, t.v_bias);
  add(sandwich_partials(), 1, s.hidden, t.post_attention_norm);
  add(sandwich_partials() + s.hidden_padded, 1, s.hidden, t.post_mlp_norm);
}

// Each thread owns a range of columns and adds rows in the order of tokens.
void BackwardPass::embedding_backward(int thread, int threads) {
  const Range columns = part_of(static_cast<int>(shape_.hidden_padded), threads, thread, kLanes);
  float* gradient = gradients_->tensor(tensors_.embedding).data();
  const std::vector<int32_t>& tokens = pass_->forward_rows().token;
  for (size_t r = 0; r < tokens.size(); ++r) {
    float* out = gradient + int64_t{tokens[r]} * shape_.hidden;
    const float* in = dx_ + static_cast<int64_t>(r) * shape_.hidden_padded;
    for (int j = columns.begin; j < std::min(columns.end, shape_.hidden); ++j) {
      out[j] += in[j] * shape_.embedding_scale;
    }
  }
}

}  // namespace stoker::cpu
