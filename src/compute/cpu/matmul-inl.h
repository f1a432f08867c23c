// Matrix product. A tile of kRows x (16 kPanels) accumulators stays in registers over the whole depth, so
// that each element of C is one chain of fused multiply-adds, whatever the shape of the tile it fell into.

template <int kRows, int kPanels>
static void matmul_tile(int depth, const float* a, int64_t a_row_stride, int64_t a_depth_stride,
                        const float* b, int64_t b_panel_stride, int64_t b_depth_stride, float* c,
                        int64_t c_stride, Write write) {
  V16 sum[kRows][kPanels];
#pragma clang loop unroll(full)
  for (int i = 0; i < kRows; ++i) {
#pragma clang loop unroll(full)
    for (int j = 0; j < kPanels; ++j) {
      sum[i][j] = write == Write::kContinue ? load(c + i * c_stride + 16 * j) : splat(0.0f);
    }
  }
#pragma clang loop unroll_count(4)
  for (int k = 0; k < depth; ++k) {
    V16 right[kPanels];
#pragma clang loop unroll(full)
    for (int j = 0; j < kPanels; ++j) right[j] = load(b + j * b_panel_stride);
#pragma clang loop unroll(full)
    for (int i = 0; i < kRows; ++i) {
      const V16 left = splat(a[i * a_row_stride]);
#pragma clang loop unroll(full)
      for (int j = 0; j < kPanels; ++j) sum[i][j] = fma(left, right[j], sum[i][j]);
    }
    a += a_depth_stride;
    b += b_depth_stride;
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < kRows; ++i) {
#pragma clang loop unroll(full)
    for (int j = 0; j < kPanels; ++j) {
      float* out = c + i * c_stride + 16 * j;
      store(out, write == Write::kAdd ? load(out) + sum[i][j] : sum[i][j]);
    }
  }
}

using MatmulTile = void (*)(int, const float*, int64_t, int64_t, const float*, int64_t, int64_t, float*,
                            int64_t, Write);

// How many panels a tile of `rows` rows takes: enough accumulators to hide the latency of a fused
// multiply-add.
constexpr int tile_panels(int rows) {
  if (rows == 1) return 4;
  if (rows == 2) return kTilePanels == 1 ? 3 : 4;
  if (rows == 3) return kTilePanels == 1 ? 2 : 4;
  return kTilePanels;
}

template <int kRows>
constexpr MatmulTile tile_of(int panels) {
  if (panels == 1) return matmul_tile<kRows, 1>;
  if constexpr (tile_panels(kRows) >= 2) {
    if (panels == 2) return matmul_tile<kRows, 2>;
  }
  if constexpr (tile_panels(kRows) >= 3) {
    if (panels == 3) return matmul_tile<kRows, 3>;
  }
  if constexpr (tile_panels(kRows) >= 4) {
    if (panels == 4) return matmul_tile<kRows, 4>;
  }
  return nullptr;
}

struct TileTable {
  MatmulTile tile[13][5] = {};

  template <int kRows>
  constexpr void fill() {
    for (int panels = 1; panels <= tile_panels(kRows); ++panels) tile[kRows][panels] = tile_of<kRows>(panels);
    if constexpr (kRows < kTileRows) fill<kRows + 1>();
  }
  constexpr TileTable() { fill<1>(); }
};
static constexpr TileTable kTiles;

// The last columns of C when they do not fill a panel: through a copy, because tiles are whole.
static void matmul_partial_panel(int rows, int depth, int columns, LeftMatrix a, const float* b,
                                 int64_t b_depth_stride, float* c, int64_t c_stride, Write write) {
  alignas(64) float copy[kTileRows * 16];
  if (write != Write::kStore) {
    for (int i = 0; i < rows; ++i) store(copy + 16 * i, load_partial(c + i * c_stride, columns, 0.0f));
  }
  kTiles.tile[rows][1](depth, a.data, a.row_stride, a.depth_stride, b, 0, b_depth_stride, copy, 16, write);
  for (int i = 0; i < rows; ++i) store_partial(c + i * c_stride, columns, load(copy + 16 * i));
}

static void matmul(int rows, int depth, int columns, LeftMatrix a, RightMatrix b, float* c, int64_t c_stride,
                   Write write) {
  const int full_panels = columns / 16;
  const int rest = columns % 16;
  // Rows are taken in blocks whose part of A stays in the first cache levels while all panels pass.
  int block_rows = depth > 0 ? kBlockFloats / depth / kTileRows * kTileRows : rows;
  if (block_rows < kTileRows) block_rows = kTileRows;
  for (int block = 0; block < rows; block += block_rows) {
    const int in_block = rows - block < block_rows ? rows - block : block_rows;
    const int tiles = (in_block + kTileRows - 1) / kTileRows;
    const int tile_rows = in_block / tiles;
    const int larger_tiles = in_block % tiles;  // the first tiles have one row more
    const int step = tile_panels(larger_tiles > 0 ? tile_rows + 1 : tile_rows);
    for (int panel = 0; panel < full_panels + (rest > 0);) {
      const bool partial = panel == full_panels;
      const int panels = partial ? 1 : (full_panels - panel < step ? full_panels - panel : step);
      const float* right = b.data + panel * b.panel_stride;
      int row = block;
      for (int t = 0; t < tiles; ++t) {
        const int count = tile_rows + (t < larger_tiles);
        const LeftMatrix left{a.data + row * a.row_stride, a.row_stride, a.depth_stride};
        float* out = c + row * c_stride + 16 * panel;
        if (partial) {
          matmul_partial_panel(count, depth, rest, left, right, b.depth_stride, out, c_stride, write);
        } else {
          kTiles.tile[count][panels](depth, left.data, left.row_stride, left.depth_stride, right,
                                     b.panel_stride, b.depth_stride, out, c_stride, write);
        }
        row += count;
      }
      panel += panels;
    }
  }
}
