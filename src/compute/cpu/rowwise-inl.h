// Row by row: norms, rotary heads, SwiGLU, biases.

STOKER_INLINE float inverse_norm(int width, int64_t padded_width, const float* x, float epsilon) {
  V16 squares = splat(0.0f);
  for (int64_t j = 0; j < padded_width; j += 16) {
    const V16 v = load(x + j);
    squares = fma(v, v, squares);
  }
  const float mean = reduce_lanes(squares) / static_cast<float>(width);
  return 1.0f / __builtin_sqrtf(mean + epsilon);
}

static void rms_norm(int rows, int width, const float* x, int64_t x_stride, const float* weight,
                     float epsilon, float* y, int64_t y_stride) {
  const int64_t padded_width = (width + 15) / 16 * 16;
  for (int i = 0; i < rows; ++i, x += x_stride, y += y_stride) {
    const V16 inverse = splat(inverse_norm(width, padded_width, x, epsilon));
    for (int64_t j = 0; j < padded_width; j += 16) store(y + j, load(x + j) * inverse * load(weight + j));
  }
}

STOKER_INLINE void norm_row_backward(int width, int64_t padded_width, const float* x, const float* weight,
                                     float epsilon, const float* dy, const float* base, float* dx,
                                     float* dweight) {
  const float inverse = inverse_norm(width, padded_width, x, epsilon);
  V16 products = splat(0.0f);
  for (int64_t j = 0; j < padded_width; j += 16) {
    products = fma(load(dy + j) * load(weight + j), load(x + j) * splat(inverse), products);
  }
  const V16 mean = splat(reduce_lanes(products) / static_cast<float>(width));
  for (int64_t j = 0; j < padded_width; j += 16) {
    const V16 normal = load(x + j) * splat(inverse);
    const V16 gradient = load(dy + j);
    store(dweight + j, fma(gradient, normal, load(dweight + j)));
    const V16 result = splat(inverse) * (gradient * load(weight + j) - normal * mean);
    store(dx + j, base != nullptr ? load(base + j) + result : result);
  }
}

static void rms_norm_backward(int rows, int width, const float* x, int64_t x_stride, const float* weight,
                              float epsilon, const float* dy, int64_t dy_stride, const float* base, float* dx,
                              int64_t dx_stride, float* dweight) {
  const int64_t padded_width = (width + 15) / 16 * 16;
  for (int i = 0; i < rows; ++i) {
    norm_row_backward(width, padded_width, x + i * x_stride, weight, epsilon, dy + i * dy_stride,
                      base == nullptr ? nullptr : base + i * dx_stride, dx + i * dx_stride, dweight);
  }
}

static void add_bias(int rows, int width, const float* bias, float* x, int64_t stride) {
  for (int i = 0; i < rows; ++i, x += stride) {
    for (int j = 0; j < width; j += 16) store(x + j, load(x + j) + load(bias + j));
  }
}

// (a, b) -> (a cos - b sin, b cos + a sin) for each pair (i, i + half). direction -1 rotates back.
STOKER_INLINE void rotate(int half, const float* x, const float* cosine, const float* sine, float direction,
                          float* y) {
  int i = 0;
  for (; i + 16 <= half; i += 16) {
    const V16 a = load(x + i), b = load(x + half + i), c = load(cosine + i),
              s = load(sine + i) * splat(direction);
    store(y + i, fma(-b, s, a * c));
    store(y + half + i, fma(a, s, b * c));
  }
  for (; i < half; ++i) {
    const float a = x[i], b = x[half + i], c = cosine[i], s = sine[i] * direction;
    y[i] = fma(-b, s, a * c);
    y[half + i] = fma(a, s, b * c);
  }
}

static void rotate_heads(int heads, int head_dim, const float* x, const float* weight, float epsilon,
                         const float* cosine, const float* sine, float* y) {
  const int64_t width = (head_dim + 15) / 16 * 16;
  for (int h = 0; h < heads; ++h, x += width, y += width) {
    if (weight != nullptr) {
      const V16 inverse = splat(inverse_norm(head_dim, width, x, epsilon));
      for (int64_t j = 0; j < width; j += 16) store(y + j, load(x + j) * inverse * load(weight + j));
    } else {
      for (int64_t j = 0; j < width; j += 16) store(y + j, load(x + j));
    }
    rotate(head_dim / 2, y, cosine, sine, 1.0f, y);
  }
}

static void rotate_heads_backward(int heads, int head_dim, const float* x, const float* weight, float epsilon,
                                  const float* cosine, const float* sine, float* dy, float* dx,
                                  float* dweight) {
  const int64_t width = (head_dim + 15) / 16 * 16;
  for (int h = 0; h < heads; ++h, x += width, dy += width, dx += width) {
    rotate(head_dim / 2, dy, cosine, sine, -1.0f, dy);
    if (weight != nullptr) {
      norm_row_backward(head_dim, width, x, weight, epsilon, dy, nullptr, dx, dweight);
    } else {
      for (int64_t j = 0; j < width; j += 16) store(dx + j, load(dy + j));
    }
  }
}

// out = gate / (1 + e^exponent(gate)) * up, row by row.
template <typename Exponent>
STOKER_INLINE void gated(int rows, int width, const float* gate_up, int64_t stride, float* out,
                         int64_t out_stride, Exponent exponent) {
  const int64_t padded_width = (width + 15) / 16 * 16;
  const V16 one = splat(1.0f);
  for (int i = 0; i < rows; ++i, gate_up += stride, out += out_stride) {
    for (int64_t j = 0; j < padded_width; j += 16) {
      const V16 gate = load(gate_up + j);
      store(out + j, gate / (one + exponential(exponent(gate))) * load(gate_up + padded_width + j));
    }
  }
}

// `slope`: the derivative of -exponent, times the gate.
template <typename Exponent, typename Slope>
STOKER_INLINE void gated_backward(int rows, int width, float* gate_up, int64_t stride, float* dout,
                                  int64_t dout_stride, Exponent exponent, Slope slope) {
  const int64_t padded_width = (width + 15) / 16 * 16;
  const V16 one = splat(1.0f);
  for (int i = 0; i < rows; ++i, gate_up += stride, dout += dout_stride) {
    for (int64_t j = 0; j < padded_width; j += 16) {
      const V16 gate = load(gate_up + j), up = load(gate_up + padded_width + j), gradient = load(dout + j);
      const V16 denominator = one + exponential(exponent(gate));
      const V16 sigmoid = one / denominator;
      const V16 activation = gate / denominator;
      store(gate_up + j, gradient * up * sigmoid * fma(slope(gate), one - sigmoid, one));
      store(gate_up + padded_width + j, gradient * activation);
      store(dout + j, activation * up);
    }
  }
}

STOKER_INLINE V16 silu_exponent(V16 x) { return -x; }
STOKER_INLINE V16 silu_slope(V16 x) { return x; }
// -2 sqrt(2 / pi) (x + 0.044715 x^3)
STOKER_INLINE V16 gelu_exponent(V16 x) { return splat(-1.5957691216f) * fma(splat(0.044715f) * x * x, x, x); }
STOKER_INLINE V16 gelu_slope(V16 x) { return splat(1.5957691216f) * fma(splat(0.134145f) * x * x, x, x); }

static void swiglu(int rows, int width, const float* gate_up, int64_t stride, float* out,
                   int64_t out_stride) {
  gated(rows, width, gate_up, stride, out, out_stride, silu_exponent);
}
static void swiglu_backward(int rows, int width, float* gate_up, int64_t stride, float* dout,
                            int64_t dout_stride) {
  gated_backward(rows, width, gate_up, stride, dout, dout_stride, silu_exponent, silu_slope);
}
static void geglu(int rows, int width, const float* gate_up, int64_t stride, float* out, int64_t out_stride) {
  gated(rows, width, gate_up, stride, out, out_stride, gelu_exponent);
}
static void geglu_backward(int rows, int width, float* gate_up, int64_t stride, float* dout,
                           int64_t dout_stride) {
  gated_backward(rows, width, gate_up, stride, dout, dout_stride, gelu_exponent, gelu_slope);
}

static void soft_cap(int count, float factor, float cap, float* x) {
  int j = 0;
  for (; j + 16 <= count; j += 16) {
    store(x + j, splat(cap) * hyperbolic_tangent(load(x + j) * splat(factor)));
  }
  if (j == count) return;
  const V16 rest = load_partial(x + j, count - j, 0.0f);
  store_partial(x + j, count - j, splat(cap) * hyperbolic_tangent(rest * splat(factor)));
}

static void soft_cap_backward(int count, float factor, float cap, const float* y, float* dy) {
  const V16 inverse = splat(1.0f / cap), slope = splat(factor * cap), zero = splat(0.0f);
  for (int j = 0; j < count; j += 16) {
    const int lanes = count - j < 16 ? count - j : 16;
    const V16 gradient = load_partial(dy + j, lanes, 0.0f);
    const V16 t = load_partial(y + j, lanes, 0.0f) * inverse;
    const V16 result = gradient * (slope * fma(-t, t, splat(1.0f)));
    store_partial(dy + j, lanes, gradient == zero ? zero : result);
  }
}
