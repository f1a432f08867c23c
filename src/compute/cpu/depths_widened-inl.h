// Products that round their left operand, by fused multiply-adds: of each pair of depths the second first,
// each factor widened to float32. The copy of the left operand has the two in that order.

constexpr int kPairFloats = 2;

STOKER_INLINE void round_depths(int depths, const float* x, float* out) {
  int k = 0;
  for (; k + 16 <= depths; k += 16) {
    const V16 rounded = as_floats(rounded_bits(load_bits(x + k)));
    store(out + k,
          __builtin_shufflevector(rounded, rounded, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
  }
  for (; k + 2 <= depths; k += 2) {
    out[k] = __builtin_bit_cast(float, rounded_bits(x[k + 1]));
    out[k + 1] = __builtin_bit_cast(float, rounded_bits(x[k]));
  }
}

STOKER_INLINE void round_columns(int rows, const float* first, const float* second, float* out) {
  for (int i = 0; i < rows; ++i) {
    out[i] = __builtin_bit_cast(float, rounded_bits(second[i]));
    out[rows + i] = __builtin_bit_cast(float, rounded_bits(first[i]));
  }
}

template <int kRows, int kPanels, int kPointers, LeftLayout kLayout>
STOKER_INLINE void multiply_depths(int depth, const float* (&left)[kPointers], int64_t a_stride,
                                   const PairedBfloat16* b, int64_t panel_stride, int64_t depth_stride,
                                   V16 (&sum)[kRows][kPanels]) {
  multiply_widened<PairedBfloat16, kRows, kPanels, kPointers, kLayout>(depth, left, a_stride, b, panel_stride,
                                                                       depth_stride, sum);
}
