// The kernels compiled for AVX-512 (flags in CMakeLists.txt). Tile 12 x 32: twenty-four accumulators of the
// thirty-two registers.

#include <cstdint>

#include "compute/cpu/kernels.h"

namespace stoker::cpu::avx512 {
namespace {

constexpr const char* kName = "avx512";
constexpr int kTileRows = 12;
constexpr int kTilePanels = 2;
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

}  // namespace stoker::cpu::avx512
