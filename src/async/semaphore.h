#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "async/task.h"
#include "async/waiter.h"
#include "base/error.h"

namespace stoker {

class Semaphore;

// Units taken from a Semaphore; gives them back on destruction. Move-only; must not outlive the semaphore.
class [[nodiscard]] Permit {
 public:
  Permit() = default;
  Permit(Permit&& other) noexcept
      : semaphore_(std::exchange(other.semaphore_, nullptr)), units_(std::exchange(other.units_, 0)) {}
  Permit& operator=(Permit&& other) noexcept {
    if (this != &other) {
      release();
      semaphore_ = std::exchange(other.semaphore_, nullptr);
      units_ = std::exchange(other.units_, 0);
    }
    return *this;
  }
  ~Permit() { release(); }

  int64_t units() const { return units_; }
  // Gives the units back early.
  void release();

 private:
  friend class Semaphore;
  Permit(Semaphore& semaphore, int64_t units) : semaphore_(&semaphore), units_(units) {}

  Semaphore* semaphore_ = nullptr;
  int64_t units_ = 0;
};

// Counts units of something limited: running episodes, tokens in flight, open connections. Strictly first
// come, first served: a large request at the head is not overtaken by small ones behind it.
//
//   Semaphore episodes(64, "episodes");
//   Task<> episode(Semaphore& episodes) {
//     Permit permit = co_await episodes.acquire();
//     co_await play();
//   }   // the unit goes to the first that waits
//
// Must outlive its permits and waiters. Loop thread only.
class Semaphore {
 public:
  explicit Semaphore(int64_t units, std::string name = "")
      : total_(units), available_(units), name_(std::move(name)) {}
  ~Semaphore();

  // Waits for `units` (at least 1). Throws Error(kInternal) at once when more are asked than there are in
  // total.
  Task<Permit> acquire(int64_t units = 1);

  // Takes `units` if they are free and nobody waits.
  std::optional<Permit> try_acquire(int64_t units = 1);

  // Units not taken; below zero for a while after the total was lowered.
  int64_t available() const { return available_; }
  int64_t total() const { return total_; }
  // Changes the limit: more units wake waiters, fewer are taken back as permits end. A waiter that
  // wants more than the new total gets Error(kInternal) when its turn comes.
  void set_total(int64_t units);

 private:
  friend class Permit;
  class Awaiter;

  Error never(int64_t units) const;

  bool can_take(int64_t units) const { return waiters_.empty() && available_ >= units; }
  void give_back(int64_t units);
  void serve();

  int64_t total_;
  int64_t available_;
  std::string name_;
  WaitQueue waiters_{"Semaphore.acquire", name_};
};

inline void Permit::release() {
  if (Semaphore* semaphore = std::exchange(semaphore_, nullptr))
    semaphore->give_back(std::exchange(units_, 0));
}

}  // namespace stoker
