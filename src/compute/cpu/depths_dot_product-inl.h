// Products that round their left operand, by VDPBF16PS: a float of the copy of the left operand holds the
// bits of a pair of depths.

typedef __bf16 B32 __attribute__((vector_size(64)));

constexpr int kPairFloats = 1;

STOKER_INLINE float rounded_pair(float first, float second) {
  return __builtin_bit_cast(float, rounded_bits(second) | rounded_bits(first) >> 16);
}

STOKER_INLINE void round_depths(int depths, const float* x, float* out) {
  int k = 0;
  for (; k + 32 <= depths; k += 32) {
    const B32 pairs = __builtin_ia32_cvtne2ps2bf16_512(load(x + k + 16), load(x + k));
    store(out + k / 2, reinterpret_cast<const V16&>(pairs));
  }
  for (; k + 2 <= depths; k += 2) out[k / 2] = rounded_pair(x[k], x[k + 1]);
}

STOKER_INLINE void round_columns(int rows, const float* first, const float* second, float* out) {
  for (int i = 0; i < rows; ++i) out[i] = rounded_pair(first[i], second[i]);
}

template <int kRows, int kPanels, int kPointers, LeftLayout kLayout>
STOKER_INLINE void multiply_depths(int depth, const float* (&left)[kPointers], int64_t a_stride,
                                   const PairedBfloat16* b, int64_t panel_stride, int64_t depth_stride,
                                   V16 (&sum)[kRows][kPanels]) {
  const PairedBfloat16* ahead = ahead_of(b, depth);
#pragma clang loop unroll_count(2)
  for (int k = 0; k < depth; k += 2) {
    V16 right[kPanels];
#pragma clang loop unroll(full)
    for (int j = 0; j < kPanels; ++j) right[j] = as_floats(load_bits(b + j * panel_stride));
    fetch<kPanels>(ahead, panel_stride);
#pragma clang loop unroll(full)
    for (int i = 0; i < kRows; ++i) {
      const V16 pair = splat(kLayout == LeftLayout::kRows ? left[i / 3][i % 3 * a_stride] : left[0][i]);
#pragma clang loop unroll(full)
      for (int j = 0; j < kPanels; ++j) {
        sum[i][j] = __builtin_ia32_dpbf16ps_512(sum[i][j], reinterpret_cast<const B32&>(pair),
                                                reinterpret_cast<const B32&>(right[j]));
      }
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < kPointers; ++i) left[i] += kLayout == LeftLayout::kRows ? 1 : a_stride;
    b += 2 * depth_stride;
    ahead += 2 * depth_stride;
  }
}
