#pragma once

#include <string_view>

namespace stoker::cpu {

// What the kernels are compiled for. Results are the same bits for every one of them.
enum class InstructionSet { kAvx2, kAvx512 };

// "avx2", "avx512".
std::string_view to_string(InstructionSet set);

// Whether this machine (and its operating system) can run the set.
bool is_supported(InstructionSet set);

// The set in use: the widest supported one, or the one named by the environment variable STOKER_ISA or by
// set_instruction_set. Throws Error(kResource) on a machine without AVX2 and FMA and Error(kInput) when
// STOKER_ISA names something unknown or unsupported.
InstructionSet instruction_set();

// Overrides the choice for the whole process (tests, benchmarks). Throws Error(kInput) when it is not
// supported.
void set_instruction_set(InstructionSet set);

}  // namespace stoker::cpu
