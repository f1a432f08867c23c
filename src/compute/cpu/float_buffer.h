#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker::cpu {

// Owns uninitialised floats on a cache line boundary; large ones lie on 2 MiB pages, which nearly doubles the
// rate at which weights stream from memory. Move-only.
class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(int64_t count) { reserve(count); }
  ~FloatBuffer();
  FloatBuffer(FloatBuffer&& other) noexcept;
  FloatBuffer& operator=(FloatBuffer&& other) noexcept;

  // Room for `count` floats; the content is lost when it has to grow. Throws Error(kResource) without memory.
  float* reserve(int64_t count);
  // reserve, then zeros.
  float* zeros(int64_t count);

  float* data() { return data_; }
  const float* data() const { return data_; }
  int64_t capacity() const { return capacity_; }

  // Bytes that all buffers of the process hold at the moment.
  static int64_t total_bytes();

 private:
  void release();

  float* data_ = nullptr;
  int64_t capacity_ = 0;
  size_t mapped_bytes_ = 0;  // 0: from the heap
};

}  // namespace stoker::cpu
