#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/compute_type.h"
#include "model/config.h"

namespace stoker::cpu::reference {

// The slow plain twins of the kernels and of the whole forward pass: what the fast code means, and its test
// oracle. In float they give the bits of the fast code; in double they are the smooth function whose finite
// differences check the gradients. Instantiated for float and double.

// e^x: in float the polynomial of the kernels, in double the library's.
float exponential(float x);
double exponential(double x);

// sum over i of term(i) in 16 lanes (element i in lane i % 16, ascending), then the tree i + 8, i + 4, i + 2,
// i + 1. `a` null: ones. Products and sums are fused.
template <typename T>
T lane_sum(std::span<const T> a, std::span<const T> b);

// y[M, N] = x[M, K] w[N, K]^T: one accumulator an element, fused, K ascending. In bfloat16 the product of
// VDPBF16PS: x is rounded (w is taken to be), of each two of K the second comes first, and in float factors
// and sums below 2^-126 are zero.
template <typename T>
std::vector<T> linear(std::span<const T> x, std::span<const T> w, int m, int n, int k,
                      ComputeType type = ComputeType::kFloat32);

// x / sqrt(mean(x^2) + epsilon) * weight.
template <typename T>
std::vector<T> rms_norm(std::span<const T> x, std::span<const T> weight, float epsilon);

// tanh x: in float the polynomial and the quotient of the kernels, in double the library's.
float hyperbolic_tangent(float x);
double hyperbolic_tangent(double x);

// Rotates the pairs (i, i + size / 2) by position * frequencies[i]; `factor` multiplies sines and cosines.
template <typename T>
void rotate(std::span<T> head, int position, std::span<const double> frequencies, float factor = 1);

// gate / (1 + e^-gate) * up.
template <typename T>
T swiglu(T gate, T up);

// gelu(gate) * up, gelu in its tanh form, written with the logistic function.
template <typename T>
T geglu(T gate, T up);

// cap * tanh(x * factor).
template <typename T>
T soft_cap(T x, T factor, T cap);

// Scores of attention: q . k * scale, with cap > 0 soft-capped; keys before `first` are not seen.
struct AttentionScores {
  float scale = 1;
  float cap = 0;
  int first = 0;
};
// Attention of one query over `count` keys and values [count, size].
template <typename T>
std::vector<T> attend(std::span<const T> query, std::span<const T> keys, std::span<const T> values, int count,
                      const AttentionScores& scores);

// log softmax(logits / temperature)[id], and the entropy of the distribution.
template <typename T>
T log_probability(std::span<const T> logits, T temperature, int32_t id);
template <typename T>
T entropy(std::span<const T> logits, T temperature);

// `values` as the compute type holds them.
template <typename T>
std::vector<T> rounded(std::span<const T> values, ComputeType type);

// Logits [tokens, vocab_size] of a sequence from position 0. `values`: all weights in manifest order.
template <typename T>
std::vector<T> sequence_logits(const ModelConfig& config, std::span<const T> values,
                               std::span<const int32_t> tokens, ComputeType type = ComputeType::kFloat32);

}  // namespace stoker::cpu::reference
