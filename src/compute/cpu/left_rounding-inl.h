// The left operand of a product that rounds it, as a copy, and what keeps denormal numbers out of the
// product. Each instruction set gives the copy its form, kPairFloats floats for a pair of depths, in
//   round_depths(depths, x, out)                 of one row,
//   round_columns(rows, first, second, out)      of one pair of depths, rows side by side.

// Floats of one thread; grows as needed.
class LeftCopy {
 public:
  LeftCopy() = default;
  LeftCopy(const LeftCopy&) = delete;
  LeftCopy& operator=(const LeftCopy&) = delete;
  ~LeftCopy() { delete[] data_; }
  float* reserve(int64_t count) {
    if (count > capacity_) {
      delete[] data_;
      data_ = nullptr;
      capacity_ = 0;
      data_ = new float[static_cast<unsigned long>(count)];
      capacity_ = count;
    }
    return data_;
  }

 private:
  float* data_ = nullptr;
  int64_t capacity_ = 0;
};
static thread_local LeftCopy left_copy;

// A rounded, until the next call.
static LeftMatrix rounded_left(int rows, int depth, LeftMatrix a) {
  const int64_t floats = int64_t{depth} / 2 * kPairFloats;
  float* out = left_copy.reserve(rows * floats);
  if (a.depth_stride == 1) {
    for (int i = 0; i < rows; ++i) round_depths(depth, a.data + i * a.row_stride, out + i * floats);
    return {out, floats, 1};
  }
  for (int64_t k = 0; k + 2 <= depth; k += 2) {
    const float* first = a.data + k * a.depth_stride;
    round_columns(rows, first, first + a.depth_stride, out + k / 2 * kPairFloats * rows);
  }
  return {out, 1, rows};
}

// As long as it lives, the thread's denormal operands and results are zero.
class FlushDenormals {
 public:
  explicit FlushDenormals(bool flush) : flush_(flush) {
    if (!flush_) return;
    kept_ = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(kept_ | 0x8040u);
  }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
  ~FlushDenormals() {
    if (flush_) __builtin_ia32_ldmxcsr(kept_);
  }

 private:
  unsigned kept_ = 0;
  bool flush_;
};
