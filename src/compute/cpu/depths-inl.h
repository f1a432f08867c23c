// The innermost loops of a matrix product: all depths of one tile, whose accumulators stay in registers.

// Which stride of A is 1: over the depth (activations) or over the rows (transposed or packed activations).
enum class LeftLayout { kRows, kColumns };

// sum += one depth of A, read through `left`, times one of B; `left` moves on.
template <int kRows, int kPanels, int kPointers, LeftLayout kLayout>
STOKER_INLINE void multiply_depth(const float* (&left)[kPointers], int64_t a_stride,
                                  const V16 (&right)[kPanels], V16 (&sum)[kRows][kPanels]) {
#pragma clang loop unroll(full)
  for (int i = 0; i < kRows; ++i) {
    const V16 factor = splat(kLayout == LeftLayout::kRows ? left[i / 3][i % 3 * a_stride] : left[0][i]);
#pragma clang loop unroll(full)
    for (int j = 0; j < kPanels; ++j) sum[i][j] = fma(factor, right[j], sum[i][j]);
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < kPointers; ++i) left[i] += kLayout == LeftLayout::kRows ? 1 : a_stride;
}

// When few rows meet weights that do not fit the caches, B comes from memory, and the processor's own
// prefetching ends at each page of 4 KiB. This is what is fetched while `b` is used: what lies some thousand
// bytes ahead, if the panels are long enough for it to be needed.
template <typename Element>
STOKER_INLINE const Element* ahead_of(const Element* b, int depth) {
  constexpr int kAheadBytes = 3072, kLeastDepth = 192;
  return b + (depth < kLeastDepth ? 0 : kAheadBytes / static_cast<int>(sizeof(Element)));
}
template <int kPanels, typename Element>
STOKER_INLINE void fetch(const Element* ahead, int64_t panel_stride) {
#pragma clang loop unroll(full)
  for (int j = 0; j < kPanels; ++j) __builtin_prefetch(ahead + j * panel_stride);
}

// All depths of a tile, B in float32.
template <int kRows, int kPanels, int kPointers, LeftLayout kLayout>
STOKER_INLINE void multiply_depths(int depth, const float* (&left)[kPointers], int64_t a_stride,
                                   const float* b, int64_t panel_stride, int64_t depth_stride,
                                   V16 (&sum)[kRows][kPanels]) {
  const float* ahead = ahead_of(b, depth);
#pragma clang loop unroll_count(4)
  for (int k = 0; k < depth; ++k) {
    V16 right[kPanels];
#pragma clang loop unroll(full)
    for (int j = 0; j < kPanels; ++j) right[j] = load(b + j * panel_stride);
    // One row is done with B faster than it can be fetched anyhow.
    if constexpr (kRows > 1) fetch<kPanels>(ahead, panel_stride);
    multiply_depth<kRows, kPanels, kPointers, kLayout>(left, a_stride, right, sum);
    b += depth_stride;
    ahead += depth_stride;
  }
}

// The same with B in bfloat16, two depths at a time.
template <typename Element, int kRows, int kPanels, int kPointers, LeftLayout kLayout>
STOKER_INLINE void multiply_widened(int depth, const float* (&left)[kPointers], int64_t a_stride,
                                    const Element* b, int64_t panel_stride, int64_t depth_stride,
                                    V16 (&sum)[kRows][kPanels]) {
  V16 right[kPanels];
  const Element* ahead = ahead_of(b, depth);
  int k = 0;
#pragma clang loop unroll_count(2)
  for (; k + 2 <= depth; k += 2) {
#pragma clang loop unroll(full)
    for (int j = 0; j < kPanels; ++j) right[j] = load_first(b + j * panel_stride);
    fetch<kPanels>(ahead, panel_stride);
    multiply_depth<kRows, kPanels, kPointers, kLayout>(left, a_stride, right, sum);
    // Read again rather than kept: with the accumulators there is no register left for it.
    if constexpr (kRows * kPanels > 4) asm("" : "+r"(b));
#pragma clang loop unroll(full)
    for (int j = 0; j < kPanels; ++j) right[j] = load_second(b + j * panel_stride);
    multiply_depth<kRows, kPanels, kPointers, kLayout>(left, a_stride, right, sum);
    b += 2 * depth_stride;
    ahead += 2 * depth_stride;
  }
  if (k == depth) return;
#pragma clang loop unroll(full)
  for (int j = 0; j < kPanels; ++j) right[j] = load_first(b + j * panel_stride);
  multiply_depth<kRows, kPanels, kPointers, kLayout>(left, a_stride, right, sum);
}

template <int kRows, int kPanels, int kPointers, LeftLayout kLayout>
STOKER_INLINE void multiply_depths(int depth, const float* (&left)[kPointers], int64_t a_stride,
                                   const Bfloat16* b, int64_t panel_stride, int64_t depth_stride,
                                   V16 (&sum)[kRows][kPanels]) {
  multiply_widened<Bfloat16, kRows, kPanels, kPointers, kLayout>(depth, left, a_stride, b, panel_stride,
                                                                 depth_stride, sum);
}
