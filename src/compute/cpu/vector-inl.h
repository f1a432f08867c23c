// Sixteen-lane vectors and the elementary functions on them. Included once into the namespace of each
// instruction set; uses no inline function of another header, which the linker could share between
// instruction sets.

typedef float V16 __attribute__((vector_size(64)));
typedef int I16 __attribute__((vector_size(64)));
typedef float V8 __attribute__((vector_size(32)));
typedef float V4 __attribute__((vector_size(16)));
typedef float V16Unaligned __attribute__((vector_size(64), aligned(4), may_alias));
typedef unsigned U16 __attribute__((vector_size(64)));
typedef unsigned U16Unaligned __attribute__((vector_size(64), aligned(4), may_alias));
typedef unsigned short Bfloat16;  // its bits
// The same in a product that rounds its left operand and takes the second of each pair of depths first.
struct PairedBfloat16 {
  unsigned short bits;
};

#define STOKER_INLINE [[gnu::always_inline]] static inline

STOKER_INLINE V16 load(const float* p) { return *reinterpret_cast<const V16Unaligned*>(p); }
STOKER_INLINE void store(float* p, V16 v) { *reinterpret_cast<V16Unaligned*>(p) = v; }
STOKER_INLINE U16 load_bits(const void* p) { return *reinterpret_cast<const U16Unaligned*>(p); }
STOKER_INLINE V16 as_floats(U16 bits) { return reinterpret_cast<const V16&>(bits); }
// Of sixteen pairs of bfloat16 the one whose turn is first, and the other, widened.
STOKER_INLINE V16 load_first(const Bfloat16* p) { return as_floats(load_bits(p) << 16); }
STOKER_INLINE V16 load_second(const Bfloat16* p) { return as_floats(load_bits(p) & 0xFFFF0000u); }
STOKER_INLINE V16 load_first(const PairedBfloat16* p) { return as_floats(load_bits(p) & 0xFFFF0000u); }
STOKER_INLINE V16 load_second(const PairedBfloat16* p) { return as_floats(load_bits(p) << 16); }
// Bits of floats, rounded to bfloat16: nearest, ties to even; NaN stays NaN.
template <typename Bits>
STOKER_INLINE Bits rounded_bits(Bits bits) {
  const Bits nearest = bits + 0x7FFFu + ((bits >> 16) & 1u);
  return ((bits & 0x7FFFFFFFu) > 0x7F800000u ? bits | 0x400000u : nearest) & 0xFFFF0000u;
}
STOKER_INLINE unsigned rounded_bits(float x) { return rounded_bits(__builtin_bit_cast(unsigned, x)); }

STOKER_INLINE V16 splat(float x) { return V16{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
STOKER_INLINE V16 fma(V16 a, V16 b, V16 c) { return __builtin_elementwise_fma(a, b, c); }
STOKER_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
STOKER_INLINE V16 square_root(V16 x) { return __builtin_elementwise_sqrt(x); }
STOKER_INLINE V16 maximum(V16 a, V16 b) { return a > b ? a : b; }
STOKER_INLINE V16 minimum(V16 a, V16 b) { return a < b ? a : b; }

// The first `count` lanes of p, the rest `fill`.
STOKER_INLINE V16 load_partial(const float* p, int count, float fill) {
  alignas(64) float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = i < count ? p[i] : fill;
  return load(lanes);
}
STOKER_INLINE void store_partial(float* p, int count, V16 v) {
  alignas(64) float lanes[16];
  store(lanes, v);
  for (int i = 0; i < count; ++i) p[i] = lanes[i];
}
STOKER_INLINE V16 keep_first(V16 v, int count, float fill) {
  const I16 index = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const I16 limit = I16{} + count;
  return index < limit ? v : splat(fill);
}

// ((lane i + lane i+8) + lane i+4) + lane i+2) + lane i+1: the tree of every sum.
STOKER_INLINE float reduce_lanes(V16 v) {
  V8 a = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
         __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  V4 b = __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
  return (b[0] + b[2]) + (b[1] + b[3]);
}
STOKER_INLINE float reduce_maximum(V16 v) {
  float result = v[0];
  for (int i = 1; i < 16; ++i) result = v[i] > result ? v[i] : result;
  return result;
}

STOKER_INLINE V16 exponential(V16 x);

// tanh x; polynomial of Cephes tanhf near 0, 1 - 2 / (e^2|x| + 1) elsewhere. NaN stays NaN.
STOKER_INLINE V16 hyperbolic_tangent(V16 x) {
  const V16 size = x < splat(0.0f) ? -x : x;
  const V16 square = x * x;
  V16 p = splat(-5.70498872745e-3f);
  p = fma(p, square, splat(2.06390887954e-2f));
  p = fma(p, square, splat(-5.37397155531e-2f));
  p = fma(p, square, splat(1.33314422036e-1f));
  p = fma(p, square, splat(-3.33332819422e-1f));
  const V16 small = fma(p * square, x, x);
  const V16 large = splat(1.0f) - splat(2.0f) / (exponential(size + size) + splat(1.0f));
  const V16 y = size < splat(0.625f) ? small : (x < splat(0.0f) ? -large : large);
  return x == x ? y : x;
}

// e^x for x <= 88 (larger x give e^88); 0 below -87.33. Range reduction and polynomial of Cephes expf, every
// multiply-add fused; error below 2 units in the last place.
STOKER_INLINE V16 exponential(V16 x) {
  const V16 clamped = minimum(x, splat(88.0f));
  const V16 magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const V16 n = fma(clamped, splat(1.44269504088896341f), magic) - magic;
  V16 r = fma(n, splat(-0.693359375f), clamped);
  r = fma(n, splat(2.12194440e-4f), r);
  V16 p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  p = fma(p, r * r, r) + splat(1.0f);
  const V16 low = splat(-87.33f);
  const V16 safe = n < splat(-126.0f) ? splat(-126.0f) : n;
  const I16 power = (__builtin_convertvector(safe, I16) + 127) << 23;
  const V16 y = p * reinterpret_cast<const V16&>(power);
  return clamped < low ? splat(0.0f) : y;
}
