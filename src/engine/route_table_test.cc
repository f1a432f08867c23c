#include "engine/route_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace stoker {
namespace {

StreamKey task(uint64_t ordinal, uint32_t sample = 0, uint32_t turn = 0) {
  return {.run_seed = 1, .task_ordinal = ordinal, .sample = sample, .turn = turn};
}

TEST(RouteTable, KeepsAGroupTogetherAndSpreadsGroups) {
  RouteTable routes;
  std::vector<ReplicaLoad> loads = {{true, 0}, {true, 0}};
  std::vector<int> of_group;
  for (uint64_t ordinal = 0; ordinal < 8; ++ordinal) {
    for (uint32_t sample = 0; sample < 4; ++sample) {
      const int chosen = routes.choose(task(ordinal, sample), loads);
      ++loads[static_cast<size_t>(chosen)].requests;
      if (sample == 0) of_group.push_back(chosen);
      EXPECT_EQ(chosen, of_group.back()) << ordinal << '.' << sample;
    }
  }
  EXPECT_EQ(loads[0].requests, 16);
  EXPECT_EQ(loads[1].requests, 16);
  for (uint64_t ordinal = 0; ordinal < 8; ++ordinal) {
    EXPECT_EQ(routes.choose(task(ordinal, 2, 1), loads), of_group[ordinal]) << "a later turn";
  }
}

TEST(RouteTable, LeavesThePrefixWhereItIsMuchMoreLoaded) {
  RouteTable routes;
  EXPECT_EQ(routes.choose(task(1), std::vector<ReplicaLoad>{{true, 0}, {true, 5}}), 0);
  const int64_t most = 10 + 5 + RouteTable::kSlack;
  EXPECT_EQ(routes.choose(task(1), std::vector<ReplicaLoad>{{true, most}, {true, 10}}), 0);
  EXPECT_EQ(routes.choose(task(1), std::vector<ReplicaLoad>{{true, most + 1}, {true, 10}}), 1);
  EXPECT_EQ(routes.choose(task(1), std::vector<ReplicaLoad>{{true, 0}, {true, 10}}), 1)
      << "the prefix is there since";
}

TEST(RouteTable, TakesOnlyReplicasThatServe) {
  RouteTable routes;
  EXPECT_EQ(routes.choose(task(1), std::vector<ReplicaLoad>{{true, 0}, {true, 0}}), 0);
  EXPECT_EQ(routes.choose(task(1), std::vector<ReplicaLoad>{{false, 0}, {true, 90}}), 1);
  EXPECT_EQ(routes.choose(task(1), std::vector<ReplicaLoad>{{false, 0}, {false, 0}}), -1);
  routes.forget(1);
  EXPECT_EQ(routes.choose(task(1), std::vector<ReplicaLoad>{{true, 1}, {true, 1}}), 0);
}

TEST(RouteTable, RemembersTheLatestTasksOnly) {
  RouteTable routes;
  EXPECT_EQ(routes.choose(task(0), std::vector<ReplicaLoad>{{true, 1}, {true, 0}}), 1);
  const std::vector<ReplicaLoad> equal = {{true, 0}, {true, 0}};
  for (uint64_t ordinal = 1; ordinal <= RouteTable::kRemembered; ++ordinal)
    routes.choose(task(ordinal), equal);
  EXPECT_EQ(routes.choose(task(0), equal), 0);
}

}  // namespace
}  // namespace stoker
