#include "compute/cpu/instruction_set.h"

#include <atomic>
#include <cstdlib>
#include <string>

#include "base/error.h"

namespace stoker::cpu {
namespace {

InstructionSet fastest() {
  // AVX512-FP16 came with Sapphire Rapids.
  const bool slow_dot_products = __builtin_cpu_is("intel") && __builtin_cpu_supports("avx512fp16");
  if (is_supported(InstructionSet::kAvx512Bf16) && !slow_dot_products) return InstructionSet::kAvx512Bf16;
  return is_supported(InstructionSet::kAvx512) ? InstructionSet::kAvx512 : InstructionSet::kAvx2;
}

InstructionSet choose() {
  if (!is_supported(InstructionSet::kAvx2)) {
    throw resource_error(
        "This processor has no AVX2 and FMA instructions, which Stoker's kernels need; use a machine of the "
        "x86-64-v3 "
        "level (Intel Haswell, AMD Zen or later).");
  }
  const char* wish = std::getenv("STOKER_ISA");
  if (wish == nullptr || *wish == '\0') return fastest();
  for (InstructionSet set : kInstructionSets) {
    if (to_string(set) != wish) continue;
    if (!is_supported(set)) {
      throw input_error("STOKER_ISA asks for '" + std::string(wish) +
                        "', which this processor does not have; unset it or choose avx2.");
    }
    return set;
  }
  throw input_error("STOKER_ISA is '" + std::string(wish) + "'; it may be avx2, avx512 or avx512_bf16.");
}

std::atomic<InstructionSet>& current() {
  static std::atomic<InstructionSet> set = choose();
  return set;
}

}  // namespace

std::string_view to_string(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
    default:
      return "avx512_bf16";
  }
}

bool is_supported(InstructionSet set) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (set == InstructionSet::kAvx2) return avx2;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return avx512 && (set == InstructionSet::kAvx512 || __builtin_cpu_supports("avx512bf16"));
}

InstructionSet instruction_set() { return current().load(std::memory_order_relaxed); }

void set_instruction_set(InstructionSet set) {
  if (!is_supported(set)) {
    throw input_error("This processor does not have " + std::string(to_string(set)) + ".");
  }
  current().store(set, std::memory_order_relaxed);
}

}  // namespace stoker::cpu
