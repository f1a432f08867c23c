#include "compute/cpu/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <type_traits>

#include <fmt/core.h>
#include "compute/cpu/kernels.h"
#include "model/float_types.h"
#include "model/rope.h"
#include "model/weights.h"

namespace stoker::cpu::reference {

float exponential(float x) {
  if (x < -87.33f) return 0;
  x = std::min(x, 88.0f);
  const float magic = 12582912.0f;  // 1.5 * 2^23
  const float n = std::fma(x, 1.44269504088896341f, magic) - magic;
  float r = std::fma(n, -0.693359375f, x);
  r = std::fma(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  for (const float coefficient :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) {
    p = std::fma(p, r, coefficient);
  }
  return std::ldexp(std::fma(p, r * r, r) + 1.0f, static_cast<int>(n));
}

double exponential(double x) { return std::exp(x); }

float hyperbolic_tangent(float x) {
  const float size = std::abs(x);
  if (size < 0.625f) {
    const float square = x * x;
    float p = -5.70498872745e-3f;
    for (const float coefficient :
         {2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f}) {
      p = std::fma(p, square, coefficient);
    }
    return std::fma(p * square, x, x);
  }
  const float large = 1.0f - 2.0f / (exponential(size + size) + 1.0f);
  return x < 0 ? -large : large;
}

double hyperbolic_tangent(double x) { return std::tanh(x); }

template <typename T>
T lane_sum(std::span<const T> a, std::span<const T> b) {
  T lanes[kLanes] = {};
  for (size_t i = 0; i < b.size(); ++i) {
    T& lane = lanes[i % kLanes];
    lane = a.empty() ? lane + b[i] : std::fma(a[i], b[i], lane);
  }
  for (int half = kLanes / 2; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

template <typename T>
std::vector<T> rounded(std::span<const T> values, ComputeType type) {
  std::vector<T> result(values.begin(), values.end());
  if (type == ComputeType::kFloat32) return result;
  for (T& value : result) value = brain_to_float(float_to_brain(static_cast<float>(value)));
  return result;
}

// What VDPBF16PS makes of a number that is denormal in float.
template <typename T>
T flushed(T x) {
  if (std::is_same_v<T, float> && std::abs(x) < std::numeric_limits<T>::min()) return std::copysign(T{0}, x);
  return x;
}

template <typename T>
std::vector<T> linear(std::span<const T> x, std::span<const T> w, int m, int n, int k, ComputeType type) {
  const bool pairs = type == ComputeType::kBfloat16;
  const std::vector<T> left = rounded(x, type);
  std::vector<T> y(static_cast<size_t>(m) * n);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      T sum = 0;
      for (int d = 0; d < k; ++d) {
        const int e = pairs && (d ^ 1) < k ? d ^ 1 : d;
        const T a = left[i * k + e], b = w[j * k + e];
        sum = pairs ? flushed(std::fma(flushed(a), flushed(b), sum)) : std::fma(a, b, sum);
      }
      y[i * n + j] = sum;
    }
  }
  return y;
}

template <typename T>
std::vector<T> rms_norm(std::span<const T> x, std::span<const T> weight, float epsilon) {
  const T mean = lane_sum<T>(x, x) / static_cast<T>(x.size());
  const T inverse = T{1} / std::sqrt(mean + static_cast<T>(epsilon));
  std::vector<T> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * inverse * weight[i];
  return y;
}

template <typename T>
void rotate(std::span<T> head, int position, std::span<const double> frequencies, float factor) {
  const size_t half = head.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const double angle = position * frequencies[i];
    const T cosine = static_cast<T>(std::cos(angle)) * static_cast<T>(factor);
    const T sine = static_cast<T>(std::sin(angle)) * static_cast<T>(factor);
    const T a = head[i], b = head[half + i];
    head[i] = std::fma(-b, sine, a * cosine);
    head[half + i] = std::fma(a, sine, b * cosine);
  }
}

template <typename T>
T swiglu(T gate, T up) {
  return gate / (T{1} + exponential(-gate)) * up;
}

template <typename T>
T geglu(T gate, T up) {
  // 2 sqrt(2 / pi), in float to the bits of the kernels.
  const T inner = std::fma(static_cast<T>(0.044715f) * gate * gate, gate, gate);
  return gate / (T{1} + exponential(static_cast<T>(-1.5957691216f) * inner)) * up;
}

template <typename T>
T soft_cap(T x, T factor, T cap) {
  return cap * hyperbolic_tangent(x * factor);
}

template <typename T>
std::vector<T> attend(std::span<const T> query, std::span<const T> keys, std::span<const T> values, int count,
                      const AttentionScores& scores) {
  const size_t size = query.size();
  std::vector<T> weights = linear<T>(query, keys, 1, count, static_cast<int>(size));
  T scale = static_cast<T>(scores.scale);
  if (scores.cap > 0) {
    for (T& weight : weights) {
      weight = soft_cap(weight, static_cast<T>(scores.scale / scores.cap), static_cast<T>(scores.cap));
    }
    scale = 1;
  }
  const T largest = *std::max_element(weights.begin() + scores.first, weights.end());
  for (int t = 0; t < count; ++t) {
    weights[t] = t < scores.first ? T{0} : exponential((weights[t] - largest) * scale);
  }
  const T inverse_sum = T{1} / lane_sum<T>({}, weights);
  std::vector<T> out(size, T{0});
  for (int t = 0; t < count; ++t) {
    for (size_t d = 0; d < size; ++d) out[d] = std::fma(weights[t], values[t * size + d], out[d]);
  }
  for (T& x : out) x *= inverse_sum;
  return out;
}

namespace {

template <typename T>
struct Softmax {
  T maximum;
  double log_sum;
  T weighted;
  T sum;
};

template <typename T>
Softmax<T> softmax_of(std::span<const T> logits, T temperature) {
  const T inverse = T{1} / temperature;
  std::vector<T> z(logits.begin(), logits.end());
  for (T& x : z) x *= inverse;
  const T maximum = *std::ranges::max_element(z);
  std::vector<T> e(z.size());
  for (size_t i = 0; i < z.size(); ++i) {
    z[i] -= maximum;
    e[i] = exponential(z[i]);
  }
  const T sum = lane_sum<T>({}, e);
  return {maximum, natural_logarithm(static_cast<double>(sum)), lane_sum<T>(e, z), sum};
}

}  // namespace

template <typename T>
T log_probability(std::span<const T> logits, T temperature, int32_t id) {
  const Softmax<T> softmax = softmax_of(logits, temperature);
  const T z = logits[id] * (T{1} / temperature);
  return static_cast<T>(static_cast<double>(z) - static_cast<double>(softmax.maximum) - softmax.log_sum);
}

template <typename T>
T entropy(std::span<const T> logits, T temperature) {
  const Softmax<T> softmax = softmax_of(logits, temperature);
  return static_cast<T>(softmax.log_sum -
                        static_cast<double>(softmax.weighted) / static_cast<double>(softmax.sum));
}

namespace {

// The tensors of a model by name.
template <typename T>
class Tensors {
 public:
  Tensors(const ModelConfig& config, std::span<const T> values) {
    size_t begin = 0;
    for (const TensorInfo& info : weight_manifest(config)) {
      const size_t count = static_cast<size_t>(info.element_count());
      tensors_[info.name] = values.subspan(begin, count);
      begin += count;
    }
  }
  std::span<const T> operator()(const std::string& name) const { return tensors_.at(name); }
  std::span<const T> operator()(int layer, const std::string& name) const {
    return tensors_.at(fmt::format("model.layers.{}.{}", layer, name));
  }

 private:
  std::map<std::string, std::span<const T>> tensors_;
};

template <typename T>
std::vector<T> norm_factors(const ModelConfig& c, std::span<const T> weight) {
  std::vector<T> factors(weight.begin(), weight.end());
  for (T& factor : factors) factor += c.norm_plus_one ? T{1} : T{0};
  return factors;
}

// One projection of all tokens to heads [tokens, heads, size]: bias, norm over each head and rotation where
// asked.
template <typename T>
std::vector<T> project(const ModelConfig& c, const Tensors<T>& tensors, int layer, char which,
                       ComputeType type, std::span<const T> x, int tokens, int heads) {
  const int size = c.head_dim, width = heads * size;
  const std::string name = fmt::format("self_attn.{}_proj", which);
  std::vector<T> y = linear<T>(x, tensors(layer, name + ".weight"), tokens, width, c.hidden_size, type);
  if (c.attention_bias) {
    const std::span<const T> bias = tensors(layer, name + ".bias");
    for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i % width];
  }
  if (which == 'v') return y;
  const bool local = c.window(layer) > 0 && c.rope_local_theta != 0;
  const std::vector<double> frequencies = local ? rope_local_frequencies(c) : rope_frequencies(c);
  const float factor = local ? 1.0f : c.rope_scaling.attention_factor;
  for (int i = 0; i < tokens * heads; ++i) {
    const std::span<T> head = std::span(y).subspan(static_cast<size_t>(i) * size, size);
    if (c.qk_norm) {
      const std::vector<T> normed =
          rms_norm<T>(head, norm_factors(c, tensors(layer, fmt::format("self_attn.{}_norm.weight", which))),
                      c.rms_norm_eps);
      std::ranges::copy(normed, head.begin());
    }
    rotate<T>(head, i / heads, frequencies, factor);
  }
  return y;
}

template <typename T>
std::vector<T> norm_rows(const ModelConfig& c, std::span<const T> x, std::span<const T> weight) {
  std::vector<T> result;
  const std::vector<T> factors = norm_factors(c, weight);
  for (size_t row = 0; row < x.size(); row += weight.size()) {
    const std::vector<T> y = rms_norm<T>(x.subspan(row, weight.size()), factors, c.rms_norm_eps);
    result.insert(result.end(), y.begin(), y.end());
  }
  return result;
}

template <typename T>
std::vector<T> self_attention(const ModelConfig& c, const Tensors<T>& tensors, ComputeType type, int layer,
                              std::span<const T> x, int tokens) {
  const int size = c.head_dim, kv_heads = c.num_key_value_heads, heads = c.num_attention_heads;
  const std::vector<T> q = project(c, tensors, layer, 'q', type, x, tokens, heads);
  const std::vector<T> k = rounded<T>(project(c, tensors, layer, 'k', type, x, tokens, kv_heads), type);
  const std::vector<T> v = rounded<T>(project(c, tensors, layer, 'v', type, x, tokens, kv_heads), type);
  const double scalar = c.query_pre_attn_scalar > 0 ? c.query_pre_attn_scalar : size;
  AttentionScores scores{static_cast<float>(1.0 / std::sqrt(scalar)), c.attn_logit_softcapping, 0};
  std::vector<T> out;
  for (int t = 0; t < tokens; ++t) {
    if (c.window(layer) > 0) scores.first = std::max(0, t + 1 - c.window(layer));
    for (int h = 0; h < heads; ++h) {
      std::vector<T> keys, values;
      for (int s = 0; s <= t; ++s) {
        const auto at = (s * kv_heads + h / (heads / kv_heads)) * size;
        keys.insert(keys.end(), k.begin() + at, k.begin() + at + size);
        values.insert(values.end(), v.begin() + at, v.begin() + at + size);
      }
      const std::vector<T> y =
          attend<T>(std::span(q).subspan((static_cast<size_t>(t) * heads + h) * size, size), keys, values,
                    t + 1, scores);
      out.insert(out.end(), y.begin(), y.end());
    }
  }
  return out;
}

template <typename T>
void add(std::vector<T>& x, const std::vector<T>& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// One layer on the residual stream x [tokens, hidden_size].
template <typename T>
void run_layer(const ModelConfig& c, const Tensors<T>& tensors, ComputeType type, int layer, int m,
               std::vector<T>& x) {
  const int d = c.hidden_size, f = c.intermediate_size;
  const auto norm = [&](const std::vector<T>& rows, const char* name) {
    return norm_rows<T>(c, rows, tensors(layer, fmt::format("{}_layernorm.weight", name)));
  };
  const std::vector<T> attended = self_attention<T>(c, tensors, type, layer, norm(x, "input"), m);
  std::vector<T> out =
      linear<T>(attended, tensors(layer, "self_attn.o_proj.weight"), m, d, c.query_size(), type);
  add(x, c.sandwich_norm ? norm(out, "post_attention") : out);
  const std::vector<T> b = norm(x, c.sandwich_norm ? "pre_feedforward" : "post_attention");
  std::vector<T> gate = linear<T>(b, tensors(layer, "mlp.gate_proj.weight"), m, f, d, type);
  const std::vector<T> up = linear<T>(b, tensors(layer, "mlp.up_proj.weight"), m, f, d, type);
  for (size_t i = 0; i < gate.size(); ++i) {
    gate[i] = c.activation == Activation::kSilu ? swiglu(gate[i], up[i]) : geglu(gate[i], up[i]);
  }
  out = linear<T>(gate, tensors(layer, "mlp.down_proj.weight"), m, d, f, type);
  add(x, c.sandwich_norm ? norm(out, "post_feedforward") : out);
}

}  // namespace

template <typename T>
std::vector<T> sequence_logits(const ModelConfig& c, std::span<const T> values,
                               std::span<const int32_t> tokens, ComputeType type) {
  const std::vector<T> parameters = rounded(values, type);
  const Tensors<T> tensors(c, parameters);
  const int m = static_cast<int>(tokens.size()), d = c.hidden_size;
  const std::span<const T> embedding = tensors("model.embed_tokens.weight");
  std::vector<T> x;
  for (const int32_t token : tokens) {
    const std::span<const T> row = embedding.subspan(static_cast<size_t>(token) * d, d);
    x.insert(x.end(), row.begin(), row.end());
  }
  if (c.scale_embedding) {
    const T scale = static_cast<T>(static_cast<float>(std::sqrt(static_cast<double>(d))));
    for (T& value : x) value *= scale;
  }
  for (int l = 0; l < c.num_hidden_layers; ++l) run_layer(c, tensors, type, l, m, x);
  const std::vector<T> hidden = norm_rows<T>(c, x, tensors("model.norm.weight"));
  const std::span<const T> head = c.tie_word_embeddings ? embedding : tensors("lm_head.weight");
  std::vector<T> logits = linear<T>(hidden, head, m, c.vocab_size, d, type);
  if (c.final_logit_softcapping > 0) {
    const T factor = static_cast<T>(1.0f / c.final_logit_softcapping);
    for (T& logit : logits) logit = soft_cap(logit, factor, static_cast<T>(c.final_logit_softcapping));
  }
  return logits;
}

#define STOKER_INSTANTIATE(T)                                                                            \
  template T lane_sum<T>(std::span<const T>, std::span<const T>);                                        \
  template std::vector<T> rounded<T>(std::span<const T>, ComputeType);                                   \
  template std::vector<T> linear<T>(std::span<const T>, std::span<const T>, int, int, int, ComputeType); \
  template std::vector<T> rms_norm<T>(std::span<const T>, std::span<const T>, float);                    \
  template void rotate<T>(std::span<T>, int, std::span<const double>, float);                            \
  template T swiglu<T>(T, T);                                                                            \
  template T geglu<T>(T, T);                                                                             \
  template T soft_cap<T>(T, T, T);                                                                       \
  template std::vector<T> attend<T>(std::span<const T>, std::span<const T>, std::span<const T>, int,     \
                                    const AttentionScores&);                                             \
  template T log_probability<T>(std::span<const T>, T, int32_t);                                         \
  template T entropy<T>(std::span<const T>, T);                                                          \
  template std::vector<T> sequence_logits<T>(const ModelConfig&, std::span<const T>,                     \
                                             std::span<const int32_t>, ComputeType);
STOKER_INSTANTIATE(float)
STOKER_INSTANTIATE(double)
#undef STOKER_INSTANTIATE

}  // namespace stoker::cpu::reference
