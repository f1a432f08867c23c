#include "async/planted_bugs.h"

#include <deque>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/scope.h"
#include "async/semaphore.h"
#include "async/sleep.h"

namespace stoker {
namespace {

constexpr int kLetters = 1;
constexpr int kBystanders = 6;
constexpr int kPhilosophers = 10;

struct Mailbox {
  std::deque<int> letters;
  Event arrived{"mail arrived"};
};

Task<> busy(int rounds) {
  for (int round = 0; round < rounds; ++round) co_await yield_now();
}

Task<> write_letters(Mailbox* mailbox) {
  for (int letter = 0; letter < kLetters; ++letter) {
    co_await busy(9);
    mailbox->letters.push_back(letter);
    mailbox->arrived.set();
  }
}

Task<> read_letters(Mailbox* mailbox) {
  for (int received = 0; received < kLetters;) {
    if (mailbox->letters.empty()) {
      co_await yield_now();
      mailbox->arrived.reset();  // the planted defect: it belongs before the look at the letters
      co_await mailbox->arrived.wait();
    } else {
      mailbox->letters.pop_front();
      ++received;
    }
  }
}

Task<> dine(Semaphore* left, Semaphore* right) {
  co_await busy(2);
  Permit first = co_await left->acquire();
  co_await yield_now();
  Permit second = co_await right->acquire();
}

}  // namespace

Task<> lost_wakeup_program() {
  Mailbox mailbox;
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(read_letters(&mailbox), "reader");
  scope.spawn(write_letters(&mailbox), "writer");
  for (int bystander = 0; bystander < kBystanders; ++bystander) scope.spawn(busy(10), "bystander");
  co_await scope.join();
}

Task<> deadlock_program() {
  std::deque<Semaphore> forks;
  for (int fork = 0; fork < kPhilosophers; ++fork) forks.emplace_back(1, "fork " + std::to_string(fork));
  Scope scope(co_await current_executor(), co_await current_cancellation());
  for (int seat = 0; seat < kPhilosophers; ++seat) {
    scope.spawn(dine(&forks[seat], &forks[(seat + 1) % kPhilosophers]),
                "philosopher " + std::to_string(seat));
  }
  co_await scope.join();
}

}  // namespace stoker
