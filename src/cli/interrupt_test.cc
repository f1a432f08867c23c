#include "cli/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

namespace stoker {
namespace {

void signal_and_wait(const InterruptWatch& interrupts) {
  ::kill(::getpid(), SIGTERM);
  while (!interrupts.interrupted()) std::this_thread::yield();
}

TEST(InterruptWatchDeathTest, TheSecondSignalEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        InterruptWatch interrupts;
        signal_and_wait(interrupts);
        ::kill(::getpid(), SIGINT);
        while (true) ::pause();
      },
      ::testing::ExitedWithCode(130), "finishing cleanly.*\n.*stopped at once by a second signal");
}

TEST(InterruptWatchDeathTest, TheFirstOneDoesWhereNothingIsToBeFinished) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        InterruptWatch interrupts;
        interrupts.end_at_first();
        ::kill(::getpid(), SIGTERM);
        while (true) ::pause();
      },
      ::testing::ExitedWithCode(130), "^stoker: interrupted\\.\n$");
}

}  // namespace
}  // namespace stoker
