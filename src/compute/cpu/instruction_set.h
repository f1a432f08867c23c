#pragma once

#include <string_view>

namespace stoker::cpu {

// What the kernels are compiled for. Results are the same bits for every one of them, bfloat16 included: a
// run may go on on another processor.
enum class InstructionSet { kAvx2, kAvx512, kAvx512Bf16 };
inline constexpr InstructionSet kInstructionSets[] = {InstructionSet::kAvx2, InstructionSet::kAvx512,
                                                      InstructionSet::kAvx512Bf16};

// "avx2", "avx512", "avx512_bf16".
std::string_view to_string(InstructionSet set);

// Whether this machine (and its operating system) can run the set.
bool is_supported(InstructionSet set);

// The set in use: the fastest one here, or the one named by the environment variable STOKER_ISA or by
// set_instruction_set. The fastest is the widest supported one, but not AVX-512 BF16 on Intel's processors
// from Sapphire Rapids on, whose VDPBF16PS does half as many operations a second as their fused
// multiply-adds. Throws Error(kResource) on a machine without AVX2 and FMA and Error(kInput) when STOKER_ISA
// names something unknown or unsupported.
InstructionSet instruction_set();

// Overrides the choice for the whole process (tests, benchmarks). Throws Error(kInput) when it is not
// supported.
void set_instruction_set(InstructionSet set);

}  // namespace stoker::cpu
