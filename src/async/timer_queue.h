#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "async/executor.h"

namespace stoker {

// Armed timers ordered by time, then by order of arming: a four-ary heap of 24-byte entries that point to
// timers living elsewhere. Push and remove are O(log n) and allocate only when the heap outgrows its
// capacity.
class TimerQueue {
 public:
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  TimePoint next_time() const { return heap_.front().time; }  // not empty

  void push(Timer& timer, TimePoint time);
  void remove(Timer& timer);
  Timer& pop();  // the first; not empty

 private:
  struct Entry {
    TimePoint time;
    uint64_t order;
    Timer* timer;
    bool before(const Entry& other) const {
      return time != other.time ? time < other.time : order < other.order;
    }
  };

  void place(size_t position, const Entry& entry);
  void sift_up(size_t position, Entry entry);
  void sift_down(size_t position, Entry entry);

  std::vector<Entry> heap_;
  uint64_t next_order_ = 0;
};

}  // namespace stoker
