#pragma once

namespace stoker {

// Membership of an object in at most one IntrusiveList<T>: derive T from ListHook<T>. A hook unlinks itself
// on destruction, in constant time and without knowing its list. Not thread-safe.
template <typename T>
class ListHook {
 public:
  ListHook() = default;
  ListHook(const ListHook&) = delete;
  ListHook& operator=(const ListHook&) = delete;

  bool linked() const { return next_ != nullptr; }

  // Leaves the list; nothing happens when this is in none.
  void unlink() {
    if (next_ == nullptr) return;
    previous_->next_ = next_;
    next_->previous_ = previous_;
    previous_ = next_ = nullptr;
  }

 protected:
  ~ListHook() { unlink(); }

 private:
  template <typename U>
  friend class IntrusiveList;

  ListHook* previous_ = nullptr;
  ListHook* next_ = nullptr;
};

// A doubly linked list of objects that live elsewhere: no allocation, removal from the middle in constant
// time. Owns nothing; the destructor unlinks every element. T derives from ListHook<T>.
template <typename T>
class IntrusiveList {
 public:
  IntrusiveList() { head_.previous_ = head_.next_ = &head_; }
  ~IntrusiveList() {
    while (!empty()) head_.next_->unlink();
    head_.previous_ = head_.next_ = nullptr;
  }
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;

  bool empty() const { return head_.next_ == &head_; }
  T& front() { return static_cast<T&>(*head_.next_); }

  // The element must be in no list.
  void push_back(T& element) {
    ListHook<T>& hook = element;
    hook.previous_ = head_.previous_;
    hook.next_ = &head_;
    head_.previous_->next_ = &hook;
    head_.previous_ = &hook;
  }

  // The first element that matches; null when none does. O(n).
  template <typename Match>
  T* find_if(Match&& match) {
    for (ListHook<T>* hook = head_.next_; hook != &head_; hook = hook->next_) {
      if (match(static_cast<const T&>(*hook))) return static_cast<T*>(hook);
    }
    return nullptr;
  }

  // Calls visit(element) for each, first to last; `visit` must not change the list.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const ListHook<T>* hook = head_.next_; hook != &head_; hook = hook->next_) {
      visit(static_cast<const T&>(*hook));
    }
  }
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (ListHook<T>* hook = head_.next_; hook != &head_; hook = hook->next_) {
      visit(static_cast<T&>(*hook));
    }
  }

 private:
  struct Head : ListHook<T> {};
  Head head_;
};

}  // namespace stoker
