#include "compute/cpu/reference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <type_traits>

#include <fmt/core.h>
#include "compute/cpu/kernels.h"
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
std::vector<T> linear(std::span<const T> x, std::span<const T> w, int m, int n, int k) {
  std::vector<T> y(static_cast<size_t>(m) * n);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      T sum = 0;
      for (int d = 0; d < k; ++d) sum = std::fma(x[i * k + d], w[j * k + d], sum);
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
void rotate(std::span<T> head, int position, float theta) {
  const size_t half = head.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const double angle =
        position * std::pow(static_cast<double>(theta),
                            -2.0 * static_cast<double>(i) / static_cast<double>(head.size()));
    const T cosine = static_cast<T>(std::cos(angle)), sine = static_cast<T>(std::sin(angle));
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
std::vector<T> attend(std::span<const T> query, std::span<const T> keys, std::span<const T> values,
                      int count) {
  const size_t size = query.size();
  std::vector<T> weights = linear<T>(query, keys, 1, count, static_cast<int>(size));
  const T scale = static_cast<T>(1.0 / std::sqrt(static_cast<double>(size)));
  const T largest = *std::ranges::max_element(weights);
  for (T& weight : weights) weight = exponential((weight - largest) * scale);
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

// One projection of all tokens to heads [tokens, heads, size]: bias, norm over each head and rotation where
// asked.
template <typename T>
std::vector<T> project(const ModelConfig& c, const Tensors<T>& tensors, int layer, char which,
                       std::span<const T> x, int tokens, int heads) {
  const int size = c.head_dim, width = heads * size;
  const std::string name = fmt::format("self_attn.{}_proj", which);
  std::vector<T> y = linear<T>(x, tensors(layer, name + ".weight"), tokens, width, c.hidden_size);
  if (c.attention_bias) {
    const std::span<const T> bias = tensors(layer, name + ".bias");
    for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i % width];
  }
  if (which == 'v') return y;
  for (int i = 0; i < tokens * heads; ++i) {
    const std::span<T> head = std::span(y).subspan(static_cast<size_t>(i) * size, size);
    if (c.qk_norm) {
      const std::vector<T> normed =
          rms_norm<T>(head, tensors(layer, fmt::format("self_attn.{}_norm.weight", which)), c.rms_norm_eps);
      std::ranges::copy(normed, head.begin());
    }
    rotate<T>(head, i / heads, c.rope_theta);
  }
  return y;
}

template <typename T>
std::vector<T> norm_rows(std::span<const T> x, std::span<const T> weight, float epsilon) {
  std::vector<T> result;
  for (size_t row = 0; row < x.size(); row += weight.size()) {
    const std::vector<T> y = rms_norm<T>(x.subspan(row, weight.size()), weight, epsilon);
    result.insert(result.end(), y.begin(), y.end());
  }
  return result;
}

template <typename T>
std::vector<T> self_attention(const ModelConfig& c, const Tensors<T>& tensors, int layer,
                              std::span<const T> x, int tokens) {
  const int size = c.head_dim, kv_heads = c.num_key_value_heads, heads = c.num_attention_heads;
  const std::vector<T> q = project(c, tensors, layer, 'q', x, tokens, heads);
  const std::vector<T> k = project(c, tensors, layer, 'k', x, tokens, kv_heads);
  const std::vector<T> v = project(c, tensors, layer, 'v', x, tokens, kv_heads);
  std::vector<T> out;
  for (int t = 0; t < tokens; ++t) {
    for (int h = 0; h < heads; ++h) {
      std::vector<T> keys, values;
      for (int s = 0; s <= t; ++s) {
        const auto at = (s * kv_heads + h / (heads / kv_heads)) * size;
        keys.insert(keys.end(), k.begin() + at, k.begin() + at + size);
        values.insert(values.end(), v.begin() + at, v.begin() + at + size);
      }
      const std::vector<T> y = attend<T>(
          std::span(q).subspan((static_cast<size_t>(t) * heads + h) * size, size), keys, values, t + 1);
      out.insert(out.end(), y.begin(), y.end());
    }
  }
  return out;
}

template <typename T>
void add(std::vector<T>& x, const std::vector<T>& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

}  // namespace

template <typename T>
std::vector<T> sequence_logits(const ModelConfig& c, std::span<const T> values,
                               std::span<const int32_t> tokens) {
  const Tensors<T> tensors(c, values);
  const int m = static_cast<int>(tokens.size()), d = c.hidden_size, f = c.intermediate_size;
  const std::span<const T> embedding = tensors("model.embed_tokens.weight");
  std::vector<T> x;
  for (const int32_t token : tokens) {
    const std::span<const T> row = embedding.subspan(static_cast<size_t>(token) * d, d);
    x.insert(x.end(), row.begin(), row.end());
  }
  for (int l = 0; l < c.num_hidden_layers; ++l) {
    const std::vector<T> a = norm_rows<T>(x, tensors(l, "input_layernorm.weight"), c.rms_norm_eps);
    const std::vector<T> attended = self_attention<T>(c, tensors, l, a, m);
    add(x, linear<T>(attended, tensors(l, "self_attn.o_proj.weight"), m, d, c.query_size()));
    const std::vector<T> b = norm_rows<T>(x, tensors(l, "post_attention_layernorm.weight"), c.rms_norm_eps);
    std::vector<T> gate = linear<T>(b, tensors(l, "mlp.gate_proj.weight"), m, f, d);
    const std::vector<T> up = linear<T>(b, tensors(l, "mlp.up_proj.weight"), m, f, d);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = swiglu(gate[i], up[i]);
    add(x, linear<T>(gate, tensors(l, "mlp.down_proj.weight"), m, d, f));
  }
  const std::vector<T> hidden = norm_rows<T>(x, tensors("model.norm.weight"), c.rms_norm_eps);
  const std::span<const T> head = c.tie_word_embeddings ? embedding : tensors("lm_head.weight");
  return linear<T>(hidden, head, m, c.vocab_size, d);
}

#define STOKER_INSTANTIATE(T)                                                                         \
  template T lane_sum<T>(std::span<const T>, std::span<const T>);                                     \
  template std::vector<T> linear<T>(std::span<const T>, std::span<const T>, int, int, int);           \
  template std::vector<T> rms_norm<T>(std::span<const T>, std::span<const T>, float);                 \
  template void rotate<T>(std::span<T>, int, float);                                                  \
  template T swiglu<T>(T, T);                                                                         \
  template std::vector<T> attend<T>(std::span<const T>, std::span<const T>, std::span<const T>, int); \
  template T log_probability<T>(std::span<const T>, T, int32_t);                                      \
  template T entropy<T>(std::span<const T>, T);                                                       \
  template std::vector<T> sequence_logits<T>(const ModelConfig&, std::span<const T>,                  \
                                             std::span<const int32_t>);
STOKER_INSTANTIATE(float)
STOKER_INSTANTIATE(double)
#undef STOKER_INSTANTIATE

}  // namespace stoker::cpu::reference
