#pragma once

#include <cstdint>

#include "compute/compute_type.h"
#include "compute/cpu/instruction_set.h"

namespace stoker::cpu {

// The innermost loops, once for each instruction set. The contract that makes sampler and trainer agree bit
// for bit:
//  - an element of a matrix product is one accumulator, fused multiply-adds over the depth in ascending
//  order;
//  - where it rounds its left operand (RightMatrix::rounds_left), each factor is bfloat16, the depths follow
//  each other in pairs, of a pair the second first, and a factor or a sum below 2^-126 is zero: this is what
//  the instruction VDPBF16PS does, and the sets without it do the same in float32;
//  - a sum over a row uses 16 lanes, element i in lane i % 16, ascending, then the tree of reduce_lanes;
//  - exp is one polynomial with one sequence of operations.
// reference.h holds the plain twin of each. Widths that a comment calls padded are multiples of 16 and their
// surplus elements are zero, before and after.

inline constexpr int kLanes = 16;
constexpr int64_t padded(int64_t width) { return (width + kLanes - 1) / kLanes * kLanes; }

// A[i, k] = data[i * row_stride + k * depth_stride]; one of the strides is 1.
struct LeftMatrix {
  const float* data = nullptr;
  int64_t row_stride = 0;
  int64_t depth_stride = 1;
};

// In float32: B[k, j] = data[j / 16 * panel_stride + k * depth_stride + j % 16].
// In bfloat16 two depths lie side by side, so that one shift or one mask widens a vector of them:
//   B[k, j] = data[j / 16 * panel_stride + k / 2 * 2 * depth_stride + j % 16 * 2 + k % 2].
// Strides count elements. Whole panels are read, and the whole last pair of an odd depth.
struct RightMatrix {
  const void* data = nullptr;
  int64_t panel_stride = 0;
  int64_t depth_stride = kLanes;
  ComputeType type = ComputeType::kFloat32;
  // In bfloat16: A is rounded to it too (nearest, ties to even). The depth of such a product is even.
  bool rounds_left = false;
};

enum class Write {
  kStore,     // C = A B
  kAdd,       // C = C + (A B)
  kContinue,  // C holds the accumulators of earlier depths and goes on
};

// What a log-softmax needs of z = logits / temperature, and what its backward pass needs again.
struct SoftmaxStatistics {
  float maximum = 0;   // of z
  float sum = 0;       // of exp(z - maximum)
  float weighted = 0;  // sum of exp(z - maximum) * (z - maximum)
};

// d loss / d logits of one row, given the statistics: factors of the formula in Kernels::logits_backward.
struct LogitsGradient {
  float inverse_temperature = 1;
  float probability_factor = 0;  // on p_j
  float entropy_factor = 0;      // on p_j * (log p_j + entropy)
  float entropy = 0;
};

struct Kernels {
  const char* name;

  // C[rows, columns] from A[rows, depth] and B[depth, columns]; C[i, j] at c[i * c_stride + j]. Only
  // `columns` columns are written.
  void (*matmul)(int rows, int depth, int columns, LeftMatrix a, RightMatrix b, float* c, int64_t c_stride,
                 Write write);

  // C = base + A B; base has C's shape and stride and may be C.
  void (*matmul_add)(int rows, int depth, int columns, LeftMatrix a, RightMatrix b, const float* base,
                     float* c, int64_t c_stride);

  // y = x / sqrt(sum(x^2) / width + epsilon) * weight; rows of padded(width).
  void (*rms_norm)(int rows, int width, const float* x, int64_t x_stride, const float* weight, float epsilon,
                   float* y, int64_t y_stride);
  // dx = base + gradient through rms_norm of dy, where base has dx's stride and may be dx; dweight += sum
  // over rows of dy * x_hat. Rows of padded(width). `base` null: zeros.
  void (*rms_norm_backward)(int rows, int width, const float* x, int64_t x_stride, const float* weight,
                            float epsilon, const float* dy, int64_t dy_stride, const float* base, float* dx,
                            int64_t dx_stride, float* dweight);

  // Adds `bias` [width] to each row.
  void (*add_bias)(int rows, int width, const float* bias, float* x, int64_t stride);

  // One row of heads, each padded(head_dim) wide: RMSNorm over the head when `weight` is not null, then
  // rotation of the pairs (i, i + head_dim / 2) by the angles whose cosines and sines [head_dim / 2] are
  // given.
  void (*rotate_heads)(int heads, int head_dim, const float* x, const float* weight, float epsilon,
                       const float* cosine, const float* sine, float* y);
  // dx = gradient through rotate_heads of dy (which is overwritten); dweight += when `weight` is not null.
  void (*rotate_heads_backward)(int heads, int head_dim, const float* x, const float* weight, float epsilon,
                                const float* cosine, const float* sine, float* dy, float* dx, float* dweight);

  // out = silu(gate) * up; a row of gate_up is gate [padded width] then up [padded width].
  void (*swiglu)(int rows, int width, const float* gate_up, int64_t stride, float* out, int64_t out_stride);
  // Replaces gate_up by its gradient, and dout by the recomputed output of swiglu.
  void (*swiglu_backward)(int rows, int width, float* gate_up, int64_t stride, float* dout,
                          int64_t dout_stride);

  // The same with gelu of the gate, in its tanh form (Hendrycks and Gimpel 2016): x / (1 + e^(-2 u)), where
  // u = sqrt(2 / pi) (x + 0.044715 x^3).
  void (*geglu)(int rows, int width, const float* gate_up, int64_t stride, float* out, int64_t out_stride);
  void (*geglu_backward)(int rows, int width, float* gate_up, int64_t stride, float* dout,
                         int64_t dout_stride);

  // x = cap * tanh(x * factor).
  void (*soft_cap)(int count, float factor, float cap, float* x);
  // dy becomes the gradient through soft_cap, whose results were y; where dy is 0, y is not looked at.
  void (*soft_cap_backward)(int count, float factor, float cap, const float* y, float* dy);

  // Attention weights of one query, not yet divided by their sum: s[i] = exp((s[i] - max) * scale) for i <
  // count, 0 for count <= i < padded_limit. Returns {max, sum}.
  struct RowSoftmax {
    float maximum;
    float sum;
  };
  RowSoftmax (*softmax_row)(float* s, int count, int padded_limit, float scale);
  // s becomes p = exp((s - max) * scale) * inverse_sum, dp becomes ds = p * (dp - delta) * scale; zeros as
  // above.
  void (*softmax_row_backward)(float* s, float* dp, int count, int padded_limit, float scale, float maximum,
                               float inverse_sum, float delta);
  // x *= factor.
  void (*scale)(int count, float factor, float* x);
  // sum of a * b in 16 lanes.
  float (*dot)(int padded_count, const float* a, const float* b);

  SoftmaxStatistics (*log_softmax_statistics)(int count, const float* logits, float inverse_temperature);
  // logits become inverse_temperature * p_j * (probability_factor + entropy_factor * (log p_j + entropy));
  // columns from count up to padded(count) become 0.
  void (*logits_backward)(int count, float* logits, SoftmaxStatistics statistics, float log_sum,
                          LogitsGradient gradient);

  // AdamW on a run of parameters, see optimizer.h. `bias1`, `bias2`: 1 - beta^t.
  struct AdamW {
    float learning_rate, beta1, beta2, epsilon, weight_decay, bias1, bias2, gradient_scale;
  };
  void (*adamw)(int64_t count, const AdamW& options, float* parameter, float* gradient, float* moment1,
                float* moment2);

  // For benchmarks: `iterations` rounds of independent fused multiply-adds that touch no memory. Writes their
  // sum to `sink`; returns the number of floating-point operations done.
  int64_t (*peak_loop)(int64_t iterations, float* sink);
};

// The table of instruction_set().
const Kernels& kernels();
const Kernels& kernels(InstructionSet set);

// ln of a finite x > 0 in double, by one sequence of operations on every machine; error below 1e-15 relative.
double natural_logarithm(double x);

}  // namespace stoker::cpu
