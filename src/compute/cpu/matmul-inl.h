// Matrix product. A tile of kRows x (16 kPanels) accumulators stays in registers over the whole depth, so
// that each element of C is one chain of fused multiply-adds, whatever the shape of the tile it fell into.

// Where a product goes: C = A B, base + A B, or accumulators from base on. base and data have one stride and
// may be one.
struct Output {
  const float* base;
  float* data;
  int64_t stride;
  Write write;
};

template <typename Element, int kRows, int kPanels, LeftLayout kLayout>
static void matmul_tile(int depth, const float* a, int64_t a_stride, const Element* b, int64_t b_panel_stride,
                        int64_t b_depth_stride, const Output& output) {
  const Output c = output;
  V16 sum[kRows][kPanels];
#pragma clang loop unroll(full)
  for (int i = 0; i < kRows; ++i) {
#pragma clang loop unroll(full)
    for (int j = 0; j < kPanels; ++j) {
      sum[i][j] = c.write == Write::kContinue ? load(c.base + i * c.stride + 16 * j) : splat(0.0f);
    }
  }
  // A pointer for every three rows: an address is a pointer and a multiple of one register, with no chain of
  // additions from row to row. The empty statement hides from the compiler that the pointers are related.
  constexpr int kPointers = kLayout == LeftLayout::kRows ? (kRows + 2) / 3 : 1;
  const float* left[kPointers];
#pragma clang loop unroll(full)
  for (int i = 0; i < kPointers; ++i) {
    left[i] = a + 3 * i * a_stride;
    asm("" : "+r"(left[i]));
  }
  // C is often far away and its rows far apart: fetched here, it has arrived when the tile is done.
#pragma clang loop unroll(full)
  for (int i = 0; i < kRows; ++i) {
#pragma clang loop unroll(full)
    for (int j = 0; j < kPanels; ++j) {
      __builtin_prefetch(c.data + i * c.stride + 16 * j, 1);
      __builtin_prefetch(c.base + i * c.stride + 16 * j, 0);
    }
  }
  multiply_depths<kRows, kPanels, kPointers, kLayout>(depth, left, a_stride, b, b_panel_stride,
                                                      b_depth_stride, sum);
#pragma clang loop unroll(full)
  for (int i = 0; i < kRows; ++i) {
#pragma clang loop unroll(full)
    for (int j = 0; j < kPanels; ++j) {
      const int64_t at = i * c.stride + 16 * j;
      store(c.data + at, c.write == Write::kAdd ? load(c.base + at) + sum[i][j] : sum[i][j]);
    }
  }
}

template <typename Element>
using MatmulTile = void (*)(int, const float*, int64_t, const Element*, int64_t, int64_t, const Output&);

// How many panels a tile of `rows` rows takes: enough accumulators to hide the latency of a fused
// multiply-add.
constexpr int tile_panels(int rows) {
  if (rows == 1) return 4;
  if (rows == 2) return kTilePanels == 1 ? 3 : 4;
  if (rows == 3) return kTilePanels == 1 ? 2 : 4;
  return kTilePanels;
}

template <typename Element, int kRows, LeftLayout kLayout>
constexpr MatmulTile<Element> tile_of(int panels) {
  if (panels == 1) return matmul_tile<Element, kRows, 1, kLayout>;
  if constexpr (tile_panels(kRows) >= 2) {
    if (panels == 2) return matmul_tile<Element, kRows, 2, kLayout>;
  }
  if constexpr (tile_panels(kRows) >= 3) {
    if (panels == 3) return matmul_tile<Element, kRows, 3, kLayout>;
  }
  if constexpr (tile_panels(kRows) >= 4) {
    if (panels == 4) return matmul_tile<Element, kRows, 4, kLayout>;
  }
  return nullptr;
}

template <typename Element, LeftLayout kLayout>
struct TileTable {
  MatmulTile<Element> tile[13][5] = {};

  template <int kRows>
  constexpr void fill() {
    for (int panels = 1; panels <= tile_panels(kRows); ++panels)
      tile[kRows][panels] = tile_of<Element, kRows, kLayout>(panels);
    if constexpr (kRows < kTileRows) fill<kRows + 1>();
  }
  constexpr TileTable() { fill<1>(); }
};
template <typename Element>
static constexpr TileTable<Element, LeftLayout::kRows> kRowTiles;
template <typename Element>
static constexpr TileTable<Element, LeftLayout::kColumns> kColumnTiles;

// The last columns of C when they do not fill a panel: through a copy, because tiles are whole.
template <typename Element>
static void matmul_partial_panel(MatmulTile<Element> tile, int rows, int depth, int columns, const float* a,
                                 int64_t a_stride, const Element* b, int64_t b_depth_stride, Output c) {
  alignas(64) float copy[kTileRows * 16];
  if (c.write != Write::kStore) {
    for (int i = 0; i < rows; ++i) store(copy + 16 * i, load_partial(c.base + i * c.stride, columns, 0.0f));
  }
  tile(depth, a, a_stride, b, 0, b_depth_stride, {copy, copy, 16, c.write});
  for (int i = 0; i < rows; ++i) store_partial(c.data + i * c.stride, columns, load(copy + 16 * i));
}

// Rows [0, rows) of C through all panels, in tiles of equal height as far as that goes.
template <typename Element>
static void matmul_rows(int rows, int depth, int columns, LeftMatrix a, RightMatrix b, Output c) {
  const bool by_rows = a.depth_stride == 1;
  const auto& table = by_rows ? kRowTiles<Element>.tile : kColumnTiles<Element>.tile;
  const int64_t a_stride = by_rows ? a.row_stride : a.depth_stride;
  const int full_panels = columns / 16;
  const int rest = columns % 16;
  const int tiles = (rows + kTileRows - 1) / kTileRows;
  const int tile_rows = rows / tiles;
  const int larger_tiles = rows % tiles;  // the first tiles have one row more
  const int step = tile_panels(larger_tiles > 0 ? tile_rows + 1 : tile_rows);
  for (int panel = 0; panel < full_panels + (rest > 0);) {
    const bool partial = panel == full_panels;
    const int panels = partial ? 1 : (full_panels - panel < step ? full_panels - panel : step);
    const Element* right = static_cast<const Element*>(b.data) + panel * b.panel_stride;
    int row = 0;
    for (int t = 0; t < tiles; ++t) {
      const int count = tile_rows + (t < larger_tiles);
      const float* left = a.data + row * a.row_stride;
      const int64_t at = row * c.stride + 16 * panel;
      const Output out{c.base + at, c.data + at, c.stride, c.write};
      const MatmulTile<Element> tile = table[count][panels];
      if (partial) {
        matmul_partial_panel(tile, count, depth, rest, left, a_stride, right, b.depth_stride, out);
      } else {
        tile(depth, left, a_stride, right, b.panel_stride, b.depth_stride, out);
      }
      row += count;
    }
    panel += panels;
  }
}

static void matmul_row_blocks(int rows, int depth, int columns, LeftMatrix a, RightMatrix b, Output c) {
  // Rows are taken in blocks whose part of A stays in the second cache level while all panels pass: each
  // block reads B again, which for the large matrices comes from memory.
  int block = depth > 0 ? kBlockFloats / depth / kTileRows * kTileRows : rows;
  // Few rows are one block: what is read more often than once should be they, not B.
  if (block < 2 * kTileRows) block = rows <= 2 * kTileRows ? 2 * kTileRows : block;
  if (block < kTileRows) block = kTileRows;
  for (int row = 0; row < rows; row += block) {
    const int count = rows - row < block ? rows - row : block;
    const int64_t at = row * c.stride;
    const LeftMatrix left{a.data + row * a.row_stride, a.row_stride, a.depth_stride};
    const Output out{c.base + at, c.data + at, c.stride, c.write};
    if (b.type == ComputeType::kFloat32) {
      matmul_rows<float>(count, depth, columns, left, b, out);
    } else if (b.rounds_left) {
      matmul_rows<PairedBfloat16>(count, depth, columns, rounded_left(count, depth, left), b, out);
    } else {
      matmul_rows<Bfloat16>(count, depth, columns, left, b, out);
    }
  }
}

// Of a deep product, as the one that carries gradients back through the LM head, few rows of A fill the
// cache: it is taken in portions of the depth, of which each goes on with the accumulators of the one before.
static void matmul_blocks(int rows, int depth, int columns, LeftMatrix a, RightMatrix b, Output c) {
  constexpr int kDeep = 4096, kPortion = 512;
  const int portion = depth > kDeep && c.write != Write::kAdd ? kPortion : depth;
  const FlushDenormals flush(b.rounds_left);
  for (int k = 0; k == 0 || k < depth; k += portion) {
    const int64_t offset = k * b.depth_stride * (b.type == ComputeType::kFloat32 ? 4 : 2);
    const LeftMatrix left{a.data + k * a.depth_stride, a.row_stride, a.depth_stride};
    const RightMatrix right{static_cast<const char*>(b.data) + offset, b.panel_stride, b.depth_stride, b.type,
                            b.rounds_left};
    matmul_row_blocks(rows, depth - k < portion ? depth - k : portion, columns, left, right, c);
    if (c.write == Write::kStore) c = {c.data, c.data, c.stride, Write::kContinue};
    if (portion == 0) return;
  }
}

static void matmul(int rows, int depth, int columns, LeftMatrix a, RightMatrix b, float* c, int64_t c_stride,
                   Write write) {
  matmul_blocks(rows, depth, columns, a, b, {c, c, c_stride, write});
}

static void matmul_add(int rows, int depth, int columns, LeftMatrix a, RightMatrix b, const float* base,
                       float* c, int64_t c_stride) {
  matmul_blocks(rows, depth, columns, a, b, {base, c, c_stride, Write::kAdd});
}
