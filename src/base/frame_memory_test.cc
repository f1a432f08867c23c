#include "base/frame_memory.h"

#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace stoker {
namespace {

struct Frame {
  void* memory;
  size_t size;
  unsigned char mark;
};

Frame make(size_t size, unsigned char mark) {
  Frame frame{FrameMemory::operator new(size), size, mark};
  std::memset(frame.memory, mark, size);
  return frame;
}

void expect_untouched(const Frame& frame) {
  const auto* bytes = static_cast<const unsigned char*>(frame.memory);
  for (size_t i = 0; i < frame.size; ++i) ASSERT_EQ(bytes[i], frame.mark);
}

TEST(FrameMemory, FramesNeverOverlapWhateverTheOrder) {
  RandomStream random({.run_seed = 4});
  std::vector<Frame> live;
  for (int i = 0; i < 5000; ++i) {
    if (live.size() < 300 && random.below(2) == 0) {
      live.push_back(make(1 + random.below(3000), static_cast<unsigned char>(random.below(256))));
      ASSERT_EQ(reinterpret_cast<uintptr_t>(live.back().memory) % alignof(std::max_align_t), 0u);
    } else if (!live.empty()) {
      const size_t at = random.below(live.size());
      expect_untouched(live[at]);
      FrameMemory::operator delete(live[at].memory, live[at].size);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  for (const Frame& frame : live) {
    expect_untouched(frame);
    FrameMemory::operator delete(frame.memory, frame.size);
  }
}

TEST(FrameMemory, AFrameMayBeFreedOnAnotherThread) {
  std::vector<Frame> made;
  std::thread maker([&] {
    for (unsigned char i = 0; i < 200; ++i) made.push_back(make(100, i));
  });
  maker.join();
  std::set<void*> distinct;
  for (const Frame& frame : made) {
    expect_untouched(frame);
    distinct.insert(frame.memory);
    FrameMemory::operator delete(frame.memory, frame.size);
  }
  EXPECT_EQ(distinct.size(), made.size());
}

}  // namespace
}  // namespace stoker
