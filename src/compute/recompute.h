#pragma once

#include <string_view>

namespace stoker {

// What a learner computes again in its backward pass instead of keeping it from the forward pass: memory
// against time (Chen et al. 2016, "Training deep nets with sublinear memory cost"; Korthikanti et al. 2022,
// section 5, for the form that spares the rest). The same kernels run again on the same numbers, so that
// gradients are the same bits in every form.
//
// kNone keeps everything. kAttention keeps of a layer the residual streams and the MLP's gate and up
// projections, and computes Q, K, V and attention again. kLayer keeps the stream before each layer alone.
enum class Recompute { kNone, kAttention, kLayer };

inline constexpr Recompute kRecomputeForms[] = {Recompute::kNone, Recompute::kAttention, Recompute::kLayer};

// "none", "attention", "layer".
std::string_view to_string(Recompute form);
// The form of that name. Throws Error(kInput) naming the possible ones.
Recompute recompute_form(std::string_view name);

}  // namespace stoker
