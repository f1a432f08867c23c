// Softmax of attention rows and of logits, and the optimizer's elementwise update.

static Kernels::RowSoftmax softmax_row(float* s, int count, int padded_limit, float scale) {
  V16 largest = splat(-__builtin_inff());
  int j = 0;
  for (; j + 16 <= count; j += 16) largest = maximum(largest, load(s + j));
  if (j < count) largest = maximum(largest, keep_first(load(s + j), count - j, -__builtin_inff()));
  const float top = reduce_maximum(largest);
  V16 sums = splat(0.0f);
  for (j = 0; j + 16 <= count; j += 16) {
    const V16 e = exponential((load(s + j) - splat(top)) * splat(scale));
    sums += e;
    store(s + j, e);
  }
  if (j < count) {
    const V16 e = keep_first(exponential((load(s + j) - splat(top)) * splat(scale)), count - j, 0.0f);
    sums += e;
    store(s + j, e);
    j += 16;
  }
  for (; j < padded_limit; j += 16) store(s + j, splat(0.0f));
  return {top, reduce_lanes(sums)};
}

static void softmax_row_backward(float* s, float* dp, int count, int padded_limit, float scale, float top,
                                 float inverse_sum, float delta) {
  int j = 0;
  for (; j < count; j += 16) {
    V16 p = exponential((load(s + j) - splat(top)) * splat(scale)) * splat(inverse_sum);
    V16 ds = p * (load(dp + j) - splat(delta)) * splat(scale);
    if (count - j < 16) {
      p = keep_first(p, count - j, 0.0f);
      ds = keep_first(ds, count - j, 0.0f);
    }
    store(s + j, p);
    store(dp + j, ds);
  }
  for (; j < padded_limit; j += 16) {
    store(s + j, splat(0.0f));
    store(dp + j, splat(0.0f));
  }
}

static void scale(int count, float factor, float* x) {
  for (int j = 0; j < count; j += 16) store(x + j, load(x + j) * splat(factor));
}

static float dot(int padded_count, const float* a, const float* b) {
  V16 sum = splat(0.0f);
  for (int j = 0; j < padded_count; j += 16) sum = fma(load(a + j), load(b + j), sum);
  return reduce_lanes(sum);
}

static SoftmaxStatistics log_softmax_statistics(int count, const float* logits, float inverse_temperature) {
  const V16 factor = splat(inverse_temperature);
  V16 largest = splat(-__builtin_inff());
  int j = 0;
  for (; j + 16 <= count; j += 16) largest = maximum(largest, load(logits + j) * factor);
  V16 rest = splat(0.0f);
  if (j < count) {
    rest = load_partial(logits + j, count - j, 0.0f) * factor;
    largest = maximum(largest, keep_first(rest, count - j, -__builtin_inff()));
  }
  const float top = reduce_maximum(largest);
  V16 sums = splat(0.0f), weighted = splat(0.0f);
  for (j = 0; j + 16 <= count; j += 16) {
    const V16 distance = load(logits + j) * factor - splat(top);
    const V16 e = exponential(distance);
    sums += e;
    weighted = fma(e, distance, weighted);
  }
  if (j < count) {
    const V16 distance = keep_first(rest - splat(top), count - j, 0.0f);
    const V16 e = keep_first(exponential(distance), count - j, 0.0f);
    sums += e;
    weighted = fma(e, distance, weighted);
  }
  return {top, reduce_lanes(sums), reduce_lanes(weighted)};
}

static void logits_backward(int count, float* logits, SoftmaxStatistics statistics, float log_sum,
                            LogitsGradient gradient) {
  const V16 factor = splat(gradient.inverse_temperature);
  const V16 inverse_sum = splat(1.0f / statistics.sum);
  for (int j = 0; j < count; j += 16) {
    const V16 distance = load(logits + j) * factor - splat(statistics.maximum);
    const V16 p = exponential(distance) * inverse_sum;
    const V16 log_p = distance - splat(log_sum);
    V16 result = p *
                 fma(splat(gradient.entropy_factor), log_p + splat(gradient.entropy),
                     splat(gradient.probability_factor)) *
                 factor;
    if (count - j < 16) result = keep_first(result, count - j, 0.0f);
    store(logits + j, result);
  }
}

static void adamw(int64_t count, const Kernels::AdamW& o, float* parameter, float* gradient, float* moment1,
                  float* moment2) {
  const V16 inverse1 = splat(1.0f / o.bias1), inverse2 = splat(1.0f / o.bias2);
  const V16 decay = splat(1.0f - o.learning_rate * o.weight_decay);
  for (int64_t j = 0; j < count; j += 16) {
    const bool whole = count - j >= 16;
    const int lanes = static_cast<int>(whole ? 16 : count - j);
    const auto get = [&](const float* p) { return whole ? load(p + j) : load_partial(p + j, lanes, 0.0f); };
    const auto put = [&](float* p, V16 v) { whole ? store(p + j, v) : store_partial(p + j, lanes, v); };
    const V16 g = get(gradient) * splat(o.gradient_scale);
    const V16 m = fma(splat(o.beta1), get(moment1), splat(1.0f - o.beta1) * g);
    const V16 v = fma(splat(o.beta2), get(moment2), splat(1.0f - o.beta2) * (g * g));
    const V16 update = m * inverse1 / (square_root(v * inverse2) + splat(o.epsilon));
    put(moment1, m);
    put(moment2, v);
    put(parameter, fma(splat(-o.learning_rate), update, get(parameter) * decay));
    put(gradient, splat(0.0f));
  }
}

static int64_t peak_loop(int64_t iterations, float* sink) {
  constexpr int kChains = 6 * kTilePanels;
  V16 chain[kChains];
#pragma clang loop unroll(full)
  for (int i = 0; i < kChains; ++i) chain[i] = splat(sink[0] + static_cast<float>(i));
  const V16 factor = splat(0.5f + sink[1] * 0.0f);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma clang loop unroll(full)
    for (int i = 0; i < kChains; ++i) chain[i] = fma(chain[i], factor, factor);
  }
  V16 sum = splat(0.0f);
#pragma clang loop unroll(full)
  for (int i = 0; i < kChains; ++i) sum += chain[i];
  sink[0] = reduce_lanes(sum);
  return iterations * kChains * 16 * 2;
}

static constexpr Kernels kTable = {
    .name = kName,
    .matmul = matmul,
    .matmul_add = matmul_add,
    .rms_norm = rms_norm,
    .rms_norm_backward = rms_norm_backward,
    .add_bias = add_bias,
    .rotate_heads = rotate_heads,
    .rotate_heads_backward = rotate_heads_backward,
    .swiglu = swiglu,
    .swiglu_backward = swiglu_backward,
    .geglu = geglu,
    .geglu_backward = geglu_backward,
    .soft_cap = soft_cap,
    .soft_cap_backward = soft_cap_backward,
    .softmax_row = softmax_row,
    .softmax_row_backward = softmax_row_backward,
    .scale = scale,
    .dot = dot,
    .log_softmax_statistics = log_softmax_statistics,
    .logits_backward = logits_backward,
    .adamw = adamw,
    .peak_loop = peak_loop,
};
