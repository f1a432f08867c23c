#pragma once

#include <cstddef>
#include <span>

#include "model/gguf.h"

namespace stoker {

// Whether dequantize knows the type: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K.
bool can_dequantize(GgufTensorType type);

// Elements of a tensor as float32 (reference: ggml-org/ggml, docs and block structures of ggml-common.h).
// `bytes` holds whole blocks for `values`, as gguf_block_layout says; throws Error(kInternal) when it does
// not, or for a type that can_dequantize refuses.
void dequantize(GgufTensorType type, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace stoker
