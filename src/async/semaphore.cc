#include "async/semaphore.h"

#include <string>

#include "base/error.h"

namespace stoker {

class Semaphore::Awaiter final : public Waiter {
 public:
  Awaiter(Semaphore& semaphore, int64_t units) : semaphore_(semaphore), units_(units) {}
  ~Awaiter() override {
    if (granted_) semaphore_.give_back(units_);
  }

  int64_t units() const { return units_; }
  // Takes the units on behalf of the waiting task and resumes it.
  void grant() {
    semaphore_.available_ -= units_;
    granted_ = true;
    wake();
  }

  // More units are wanted than there are in total any more.
  void refuse() {
    refused_ = true;
    wake();
  }

  bool await_ready() const { return false; }
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    if (semaphore_.can_take(units_) && !handle.promise().context().cancellation.requested()) {
      semaphore_.available_ -= units_;
      granted_ = true;
      return false;
    }
    if (!begin(handle, semaphore_.waiters_.site())) return false;
    semaphore_.waiters_.push_back(*this);
    return true;
  }
  Permit await_resume() {
    finish();
    if (refused_) throw semaphore_.never(units_);
    granted_ = false;
    return Permit(semaphore_, units_);
  }

 private:
  // A large request that leaves the head lets smaller ones through.
  void cancelled() override { semaphore_.serve(); }

  Semaphore& semaphore_;
  int64_t units_;
  bool granted_ = false;
  bool refused_ = false;
};

Semaphore::~Semaphore() = default;

Task<Permit> Semaphore::acquire(int64_t units) {
  if (units < 1 || units > total_) throw never(units);
  co_return co_await Awaiter(*this, units);
}

Error Semaphore::never(int64_t units) const {
  return internal_error("Semaphore '" + name_ + "' was asked for " + std::to_string(units) + " of its " +
                        std::to_string(total_) + " units; that wait could never end.");
}

std::optional<Permit> Semaphore::try_acquire(int64_t units) {
  if (units < 1 || !can_take(units)) return std::nullopt;
  available_ -= units;
  return Permit(*this, units);
}

void Semaphore::set_total(int64_t units) {
  available_ += units - total_;
  total_ = units;
  serve();
}

void Semaphore::give_back(int64_t units) {
  available_ += units;
  serve();
}

void Semaphore::serve() {
  while (!waiters_.empty()) {
    auto& first = static_cast<Awaiter&>(waiters_.front());
    if (first.units() > total_) {
      first.refuse();
    } else if (first.units() > available_) {
      return;
    } else {
      first.grant();
    }
  }
}

}  // namespace stoker
