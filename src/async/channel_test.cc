#include "async/channel.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "async/cancellation.h"
#include "async/scope.h"
#include "async/sleep.h"
#include "async/testing.h"
#include "async/timeout.h"
#include "base/random.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

Task<> send_numbers(Channel<int>* channel, int begin, int end) {
  for (int value = begin; value < end; ++value) {
    if (!co_await channel->send(value)) co_return;
  }
}
Task<> receive_one(Channel<int>* channel, std::vector<std::optional<int>>* out) {
  out->push_back(co_await channel->receive());
}

CO_TEST(Channel, GivesValuesInOrder) {
  Channel<int> channel(2, "numbers");
  Scope scope(co_await current_executor());
  scope.spawn(send_numbers(&channel, 0, 20));
  for (int value = 0; value < 20; ++value) EXPECT_EQ(co_await channel.receive(), value);
  co_await scope.join();
  EXPECT_EQ(channel.size(), 0u);
}

CO_TEST(Channel, FullOneIsBackPressure) {
  Channel<int> channel(3);
  Scope scope(co_await current_executor());
  scope.spawn(send_numbers(&channel, 0, 10));
  co_await sleep_for(1ms);
  EXPECT_EQ(channel.size(), 3u);
  int value = 99;
  EXPECT_FALSE(channel.try_send(value));
  EXPECT_EQ(value, 99);
  EXPECT_EQ(channel.try_receive(), 0);
  EXPECT_EQ(channel.size(), 3u);  // the waiting sender's value took the place at once
  channel.close();
  co_await scope.join();
}

CO_TEST(Channel, CapacityZeroHandsOver) {
  Channel<int> channel(0);
  int value = 1;
  EXPECT_FALSE(channel.try_send(value));
  EXPECT_FALSE(channel.try_receive());
  Scope scope(co_await current_executor());
  scope.spawn(send_numbers(&channel, 0, 5));
  for (int expected = 0; expected < 5; ++expected) EXPECT_EQ(co_await channel.receive(), expected);
  std::vector<std::optional<int>> out;
  scope.spawn(receive_one(&channel, &out));
  co_await sleep_for(1ms);
  EXPECT_TRUE(channel.try_send(value));
  co_await scope.join();
  EXPECT_EQ(out, std::vector<std::optional<int>>{1});
}

CO_TEST(Channel, MovesMoveOnlyValues) {
  Channel<std::unique_ptr<int>> channel(1);
  EXPECT_TRUE(co_await channel.send(std::make_unique<int>(4)));
  std::optional<std::unique_ptr<int>> value = co_await channel.receive();
  CO_ASSERT_TRUE(value.has_value());
  EXPECT_EQ(**value, 4);
}

CO_TEST(Channel, CloseDrainsThenEnds) {
  Channel<int> channel(2);
  EXPECT_TRUE(co_await channel.send(1));
  channel.close();
  channel.close();
  EXPECT_TRUE(channel.closed());
  EXPECT_FALSE(co_await channel.send(2));
  EXPECT_EQ(co_await channel.receive(), 1);
  EXPECT_EQ(co_await channel.receive(), std::nullopt);
  EXPECT_EQ(co_await channel.receive(), std::nullopt);
}

CO_TEST(Channel, CloseWakesThoseWhoWait) {
  Channel<int> full(1), empty(1);
  EXPECT_TRUE(co_await full.send(0));
  std::vector<std::optional<int>> out;
  Scope scope(co_await current_executor());
  scope.spawn(send_numbers(&full, 1, 2));
  scope.spawn(receive_one(&empty, &out));
  scope.spawn(receive_one(&empty, &out));
  co_await sleep_for(1ms);
  full.close();
  empty.close();
  co_await scope.join();
  EXPECT_EQ(out, std::vector<std::optional<int>>(2));
  EXPECT_EQ(co_await full.receive(), 0);
  EXPECT_EQ(co_await full.receive(), std::nullopt);  // the refused value is gone
}

Task<> receive_numbered(Channel<int>* channel, std::map<int, int>* got, int name) {
  (*got)[name] = (co_await channel->receive()).value_or(-1);
}

CO_TEST(Channel, ReceiversAreServedInOrderOfArrival) {
  Channel<int> channel(1);
  std::map<int, int> got;
  Scope scope(co_await current_executor());
  for (int name = 0; name < 4; ++name) {
    scope.spawn(receive_numbered(&channel, &got, name));
    co_await sleep_for(1us);
  }
  for (int value = 0; value < 4; ++value) EXPECT_TRUE(co_await channel.send(value));
  co_await scope.join();
  EXPECT_EQ(got, (std::map<int, int>{{0, 0}, {1, 1}, {2, 2}, {3, 3}}));
}

CO_TEST(Channel, CancelledWaitersLeaveWithoutLoss) {
  Channel<int> channel(1);
  std::vector<std::optional<int>> out;
  EXPECT_FALSE(co_await with_timeout(1ms, receive_one(&channel, &out)));
  EXPECT_TRUE(co_await channel.send(1));
  EXPECT_FALSE(co_await with_timeout(1ms, send_numbers(&channel, 2, 3)));
  EXPECT_EQ(co_await channel.receive(), 1);
  EXPECT_FALSE(channel.try_receive());  // the cancelled send did not happen
  EXPECT_TRUE(out.empty());
}

CO_TEST(Channel, ValueHandedOverSurvivesALaterCancellation) {
  Channel<int> channel(1);
  std::vector<std::optional<int>> out;
  Scope scope(co_await current_executor());
  scope.spawn(receive_one(&channel, &out));
  co_await sleep_for(1ms);
  int value = 5;
  EXPECT_TRUE(channel.try_send(value));
  scope.cancel();
  co_await scope.join();
  EXPECT_EQ(out, std::vector<std::optional<int>>{5});
}

struct Ledger {
  std::vector<int> sent;      // accepted, by any sender
  std::vector<int> received;  // by any receiver
};

Task<> send_with_cancellations(Channel<int>* channel, Ledger* ledger, int sender, uint64_t seed) {
  RandomStream random({.run_seed = seed, .sample = static_cast<uint32_t>(sender)});
  for (int round = 0; round < 20; ++round) {
    const int value = sender * 100 + round;
    const Duration limit(random.below(4) == 0 ? 0 : 1'000'000);
    const std::optional<bool> sent = co_await with_timeout(limit, channel->send(value));
    if (sent && *sent) ledger->sent.push_back(value);
  }
}
Task<> receive_with_cancellations(Channel<int>* channel, Ledger* ledger, uint64_t seed) {
  RandomStream random({.run_seed = seed, .sample = 1000});
  while (true) {
    const Duration limit(random.below(4) == 0 ? 0 : 1'000'000);
    const auto value = co_await with_timeout(limit, channel->receive());
    if (!value) continue;
    if (!*value) co_return;
    ledger->received.push_back(**value);
  }
}
Task<> exchange(uint64_t seed, size_t capacity, Ledger* ledger) {
  Channel<int> channel(capacity);
  Scope senders(co_await current_executor());
  Scope receivers(co_await current_executor());
  for (int sender = 0; sender < 3; ++sender)
    senders.spawn(send_with_cancellations(&channel, ledger, sender, seed));
  for (int receiver = 0; receiver < 2; ++receiver) {
    receivers.spawn(receive_with_cancellations(&channel, ledger, seed + receiver));
  }
  co_await senders.join();
  channel.close();
  co_await receivers.join();
}

// Whatever the schedule and the cancellations: what was accepted arrives exactly once.
TEST(Channel, NothingIsLostOrDoubledUnderRandomCancellations) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SimulatedExecutor executor(seed);
    Ledger ledger;
    run(executor, exchange(seed, seed % 4, &ledger));
    std::sort(ledger.sent.begin(), ledger.sent.end());
    std::sort(ledger.received.begin(), ledger.received.end());
    ASSERT_EQ(ledger.sent, ledger.received) << "seed " << seed;
    ASSERT_FALSE(ledger.sent.empty());
  }
}

}  // namespace
}  // namespace stoker
