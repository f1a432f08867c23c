#include "compute/cpu/kernels.h"

#include <cmath>

namespace stoker::cpu {

namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}
namespace avx512_bf16 {
extern const Kernels kKernels;
}

const Kernels& kernels(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx2:
      return avx2::kKernels;
    case InstructionSet::kAvx512:
      return avx512::kKernels;
    default:
      return avx512_bf16::kKernels;
  }
}

const Kernels& kernels() { return kernels(instruction_set()); }

double natural_logarithm(double x) {
  // x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(t), t = (m - 1) / (m + 1), |t| <= 0.172.
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752440) {
    m *= 2;
    --exponent;
  }
  const double t = (m - 1) / (m + 1);
  const double square = t * t;
  double series = 0;
  for (int k = 21; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return 2 * t * series + exponent * 0.69314718055994530942;
}

}  // namespace stoker::cpu
