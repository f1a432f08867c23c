#include "compute/cpu/float_buffer.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/core.h>
#include "base/error.h"

namespace stoker::cpu {
namespace {
constexpr size_t kHugePage = size_t{2} << 20;
std::atomic<int64_t> held_bytes = 0;
}  // namespace

int64_t FloatBuffer::total_bytes() { return held_bytes.load(std::memory_order_relaxed); }

FloatBuffer::~FloatBuffer() { release(); }

FloatBuffer::FloatBuffer(FloatBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)) {}

FloatBuffer& FloatBuffer::operator=(FloatBuffer&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    capacity_ = std::exchange(other.capacity_, 0);
    mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
  }
  return *this;
}

void FloatBuffer::release() {
  held_bytes.fetch_sub(capacity_ * static_cast<int64_t>(sizeof(float)), std::memory_order_relaxed);
  if (mapped_bytes_ > 0) {
    ::munmap(data_, mapped_bytes_);
  } else {
    std::free(data_);
  }
  data_ = nullptr;
  capacity_ = 0;
  mapped_bytes_ = 0;
}

float* FloatBuffer::reserve(int64_t count) {
  if (count <= capacity_) return data_;
  release();
  size_t bytes = static_cast<size_t>(count) * sizeof(float);
  void* memory = nullptr;
  if (bytes >= kHugePage) {
    bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) memory = nullptr;
    if (memory != nullptr) {
      ::madvise(memory, bytes, MADV_HUGEPAGE);
      mapped_bytes_ = bytes;
    }
  } else {
    bytes = (bytes + 63) / 64 * 64;
    memory = std::aligned_alloc(64, bytes);
  }
  if (memory == nullptr) {
    throw resource_error(fmt::format(
        "No memory for a buffer of {} MiB of the model's computation; use a smaller batch or model.",
        bytes >> 20));
  }
  data_ = static_cast<float*>(memory);
  capacity_ = static_cast<int64_t>(bytes / sizeof(float));
  held_bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  return data_;
}

float* FloatBuffer::zeros(int64_t count) {
  reserve(count);
  if (count > 0) std::memset(data_, 0, static_cast<size_t>(count) * sizeof(float));
  return data_;
}

}  // namespace stoker::cpu
