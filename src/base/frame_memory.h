#pragma once

#include <cstddef>

namespace stoker {

// Base of a promise and of what comes and goes with it: frames come from lists of free ones, a list a size
// and thread, the last freed first. A turn makes dozens; the one freed a moment ago is still in the cache,
// which a general allocator's next block is not. A thread keeps at most 1,024 free frames of each size and
// gives them back when it ends; a frame may be freed on another thread than made it. Under sanitizers every
// frame is the general allocator's, so that they see its end.
class FrameMemory {
 public:
  static void* operator new(size_t size);
  static void operator delete(void* frame, size_t size) noexcept;
};

}  // namespace stoker
