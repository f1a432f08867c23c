#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

// y[M, N] = x[M, K] w[N, K]^T: one accumulator an element, fused, K ascending.
template <typename T>
std::vector<T> linear(std::span<const T> x, std::span<const T> w, int m, int n, int k);

// x / sqrt(mean(x^2) + epsilon) * weight.
template <typename T>
std::vector<T> rms_norm(std::span<const T> x, std::span<const T> weight, float epsilon);

// Rotates the pairs (i, i + size / 2) by position * theta^(-2 i / size).
template <typename T>
void rotate(std::span<T> head, int position, float theta);

// gate / (1 + e^-gate) * up.
template <typename T>
T swiglu(T gate, T up);

// Attention of one query over `count` keys and values [count, size], scores scaled by 1 / sqrt(size).
template <typename T>
std::vector<T> attend(std::span<const T> query, std::span<const T> keys, std::span<const T> values,
                      int count);

// log softmax(logits / temperature)[id], and the entropy of the distribution.
template <typename T>
T log_probability(std::span<const T> logits, T temperature, int32_t id);
template <typename T>
T entropy(std::span<const T> logits, T temperature);

// Logits [tokens, vocab_size] of a sequence from position 0. `values`: all weights in manifest order.
template <typename T>
std::vector<T> sequence_logits(const ModelConfig& config, std::span<const T> values,
                               std::span<const int32_t> tokens);

}  // namespace stoker::cpu::reference
