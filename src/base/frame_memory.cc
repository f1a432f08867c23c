#include "base/frame_memory.h"

#include <array>
#include <cstdint>
#include <new>

namespace stoker {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kKeep = false;
#else
constexpr bool kKeep = true;
#endif
#else
constexpr bool kKeep = true;
#endif

constexpr size_t kStep = 16;       // sizes are rounded up to whole steps
constexpr size_t kLargest = 2048;  // larger frames are not kept
constexpr uint32_t kKeptOfASize = 1024;

struct FreeFrame {
  FreeFrame* next;
};

struct FreeFrames {
  FreeFrame* first = nullptr;
  uint32_t count = 0;
};

// Trivial, so that it outlives every object of its thread: frames are freed by destructors of statics too.
constinit thread_local std::array<FreeFrames, kLargest / kStep + 1> free_frames{};
constinit thread_local bool thread_ended = false;

// Gives the thread's frames back at its end.
struct AtThreadEnd {
  ~AtThreadEnd() {
    thread_ended = true;
    for (FreeFrames& frames : free_frames) {
      while (frames.first != nullptr) {
        FreeFrame* frame = frames.first;
        frames.first = frame->next;
        ::operator delete(frame);
      }
      frames.count = 0;
    }
  }
  void arm() {}
};
thread_local AtThreadEnd at_thread_end;

}  // namespace

void* FrameMemory::operator new(size_t size) {
  const size_t steps = (size + kStep - 1) / kStep;
  if (kKeep && steps < free_frames.size()) {
    FreeFrames& frames = free_frames[steps];
    if (frames.first != nullptr) {
      FreeFrame* frame = frames.first;
      frames.first = frame->next;
      --frames.count;
      return frame;
    }
    at_thread_end.arm();
  }
  return ::operator new(steps * kStep);
}

void FrameMemory::operator delete(void* frame, size_t size) noexcept {
  const size_t steps = (size + kStep - 1) / kStep;
  if (kKeep && steps < free_frames.size() && !thread_ended) {
    FreeFrames& frames = free_frames[steps];
    if (frames.count < kKeptOfASize) {
      auto* free = ::new (frame) FreeFrame{frames.first};
      frames.first = free;
      ++frames.count;
      return;
    }
  }
  ::operator delete(frame);
}

}  // namespace stoker
