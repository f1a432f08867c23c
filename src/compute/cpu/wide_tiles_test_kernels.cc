// The kernels with the tile shapes of AVX-512, compiled for AVX2: slow, and the same bits. For tests.

#include <cstdint>

#include "compute/cpu/kernels.h"

namespace stoker::cpu::wide_tiles {
namespace {

constexpr const char* kName = "wide tiles";
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

}  // namespace stoker::cpu::wide_tiles
