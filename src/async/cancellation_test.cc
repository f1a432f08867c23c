#include "async/cancellation.h"

#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "async/event.h"
#include "async/scope.h"
#include "async/sleep.h"
#include "async/testing.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

TEST(CancellationSource, FirstRequestWins) {
  CancellationSource source;
  const CancellationToken token = source.token();
  EXPECT_FALSE(token.requested());
  source.request(CancelReason::kDeadline);
  source.request(CancelReason::kShutdown);
  EXPECT_TRUE(token.requested());
  EXPECT_EQ(token.reason(), CancelReason::kDeadline);
  EXPECT_THROW(token.throw_if_requested(), Cancelled);
}

TEST(CancellationToken, DefaultIsNeverRequestedAndOutlivesItsSource) {
  EXPECT_FALSE(CancellationToken().requested());
  CancellationToken token;
  {
    CancellationSource source;
    token = source.token();
    source.request();
  }
  EXPECT_TRUE(token.requested());
}

TEST(CancellationCallback, RunsInOrderOnceAndUnlinksItself) {
  CancellationSource source;
  std::vector<int> calls;
  CancellationCallback first(source.token(), [&](CancelReason) { calls.push_back(1); });
  CancellationCallback second(source.token(), [&](CancelReason) { calls.push_back(2); });
  {
    CancellationCallback gone(source.token(), [&](CancelReason) { calls.push_back(3); });
  }
  source.request();
  source.request();
  EXPECT_EQ(calls, (std::vector<int>{1, 2}));
  CancellationCallback late(source.token(), [&](CancelReason) { calls.push_back(4); });
  EXPECT_EQ(calls, (std::vector<int>{1, 2, 4}));
}

TEST(CancellationCallback, MayDestroyAnotherAndTheSource) {
  auto source = std::make_unique<CancellationSource>();
  int calls = 0;
  std::optional<CancellationCallback> second;
  CancellationCallback first(source->token(), [&](CancelReason) {
    ++calls;
    second.reset();
    source.reset();
  });
  second.emplace(source->token(), [&](CancelReason) { ++calls; });
  CancellationCallback third(source->token(), [&](CancelReason) { ++calls; });
  source->request();
  EXPECT_EQ(calls, 2);
}

TEST(CancellationSource, PassesItsParentsRequestOn) {
  CancellationSource parent;
  CancellationSource child(parent.token());
  CancellationSource other(parent.token());
  child.request(CancelReason::kRequested);
  EXPECT_FALSE(parent.requested());
  parent.request(CancelReason::kShutdown);
  EXPECT_EQ(child.token().reason(), CancelReason::kRequested);
  EXPECT_EQ(other.token().reason(), CancelReason::kShutdown);
}

Task<std::optional<CancelReason>> reason_of(Task<> task) {
  try {
    co_await std::move(task);
  } catch (const Cancelled& cancelled) {
    co_return cancelled.reason();
  }
  co_return std::nullopt;
}

Task<> request_after(Duration delay, CancellationSource* source, CancelReason reason) {
  co_await sleep_for(delay);
  source->request(reason);
}

CO_TEST(WithCancellation, CancelsByItsToken) {
  CancellationSource source;
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(request_after(1ms, &source, CancelReason::kRequested));
  EXPECT_EQ(co_await reason_of(with_cancellation(source.token(), sleep_for(1h))), CancelReason::kRequested);
  co_await scope.join();
  EXPECT_EQ(co_await reason_of(with_cancellation(source.token(), sleep_for(1h))), CancelReason::kRequested);
}

CO_TEST(WithCancellation, CallersTokenReachesTheTask) {
  CancellationSource caller, own;
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(request_after(1ms, &caller, CancelReason::kShutdown));
  Task<> inner = with_cancellation(own.token(), sleep_for(1h));
  EXPECT_EQ(co_await reason_of(with_cancellation(caller.token(), std::move(inner))), CancelReason::kShutdown);
  EXPECT_FALSE(own.requested());
  co_await scope.join();
}

Task<> clean_up(bool* finished) {
  co_await sleep_for(1ms);
  *finished = true;
}
Task<> guarded(bool* finished) { co_await shielded(clean_up(finished)); }

CO_TEST(Shielded, IgnoresTheCallersCancellation) {
  CancellationSource source;
  source.request();
  bool finished = false;
  EXPECT_EQ(co_await reason_of(with_cancellation(source.token(), guarded(&finished))), std::nullopt);
  EXPECT_TRUE(finished);
}

CO_TEST(Cancelled, IsThrownEvenWhereTheWaitWouldNotSuspend) {
  CancellationSource source;
  source.request();
  Event set("set");
  set.set();
  EXPECT_EQ(co_await reason_of(with_cancellation(source.token(), set.wait())), CancelReason::kRequested);
  EXPECT_EQ(co_await reason_of(with_cancellation(source.token(), yield_now())), CancelReason::kRequested);
}

TEST(CancelReason, HasNames) {
  EXPECT_STREQ(to_string(CancelReason::kRequested), "requested");
  EXPECT_STREQ(to_string(CancelReason::kDeadline), "deadline");
  EXPECT_STREQ(to_string(CancelReason::kShutdown), "shutdown");
  EXPECT_STREQ(Cancelled(CancelReason::kDeadline).what(), "The task was cancelled at its deadline.");
}

}  // namespace
}  // namespace stoker
