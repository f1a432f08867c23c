// The kernels compiled for AVX2 and FMA (flags in CMakeLists.txt). Tile 6 x 16: twelve accumulators of the
// sixteen registers.

#include <cstdint>

#include "compute/cpu/kernels.h"

namespace stoker::cpu::avx2 {
namespace {

constexpr const char* kName = "avx2";
constexpr int kTileRows = 6;
constexpr int kTilePanels = 1;
constexpr int kBlockFloats = 32768;

#include "compute/cpu/vector-inl.h"
// Order matters: the files build on each other.
#include "compute/cpu/depths-inl.h"
#include "compute/cpu/depths_widened-inl.h"
#include "compute/cpu/left_rounding-inl.h"
#include "compute/cpu/matmul-inl.h"
#include "compute/cpu/rowwise-inl.h"
#include "compute/cpu/softmax-inl.h"

}  // namespace

extern const Kernels kKernels;
const Kernels kKernels = kTable;

}  // namespace stoker::cpu::avx2
