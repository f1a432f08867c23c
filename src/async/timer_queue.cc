#include "async/timer_queue.h"

#include <algorithm>

namespace stoker {
namespace {
constexpr size_t kChildren = 4;
}

void TimerQueue::place(size_t position, const Entry& entry) {
  heap_[position] = entry;
  entry.timer->position_ = static_cast<uint32_t>(position);
}

void TimerQueue::sift_up(size_t position, Entry entry) {
  while (position > 0) {
    const size_t parent = (position - 1) / kChildren;
    if (!entry.before(heap_[parent])) break;
    place(position, heap_[parent]);
    position = parent;
  }
  place(position, entry);
}

void TimerQueue::sift_down(size_t position, Entry entry) {
  while (true) {
    const size_t first = position * kChildren + 1;
    if (first >= heap_.size()) break;
    const size_t end = std::min(first + kChildren, heap_.size());
    size_t least = first;
    for (size_t child = first + 1; child < end; ++child) {
      if (heap_[child].before(heap_[least])) least = child;
    }
    if (!heap_[least].before(entry)) break;
    place(position, heap_[least]);
    position = least;
  }
  place(position, entry);
}

void TimerQueue::push(Timer& timer, TimePoint time) {
  heap_.push_back({});
  sift_up(heap_.size() - 1, Entry{time, next_order_++, &timer});
}

void TimerQueue::remove(Timer& timer) {
  const size_t position = timer.position_;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (position == heap_.size()) return;
  if (position > 0 && last.before(heap_[(position - 1) / kChildren])) {
    sift_up(position, last);
  } else {
    sift_down(position, last);
  }
}

Timer& TimerQueue::pop() {
  Timer& timer = *heap_.front().timer;
  remove(timer);
  return timer;
}

}  // namespace stoker
