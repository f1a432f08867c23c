#pragma once

#include <string_view>

namespace stoker {

// In what weights, keys and values are held where the model is computed; a setting of the whole run, because
// sampler and trainer must agree.
//
// kBfloat16 means: every parameter is rounded to bfloat16 (nearest, ties to even), and so are each key and
// each value when they enter the cache, and activations where a forward pass multiplies them by a weight
// matrix; everything else, all sums included, is float32. It halves the memory that a token's computation
// reads, and lets processors with an instruction for it multiply at twice the rate. Master weights, moments
// and gradients stay float32, and gradients pass through the rounding as if it were not there. A model that
// is saved in BF16 therefore computes the same bits as the weights that it was saved from.
enum class ComputeType { kFloat32, kBfloat16 };

// "float32", "bfloat16".
std::string_view to_string(ComputeType type);
// The type of that name. Throws Error(kInput) naming the possible ones.
ComputeType compute_type(std::string_view name);

// Bytes of one weight, key or value.
constexpr int bytes_of(ComputeType type) { return type == ComputeType::kFloat32 ? 4 : 2; }

}  // namespace stoker
