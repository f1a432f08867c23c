#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "base/random.h"

namespace stoker {

// One replica as the choice sees it.
struct ReplicaLoad {
  bool serving = false;
  int64_t requests = 0;  // in flight
};

// Chooses a replica for each request: the one that has the request's prefix, unless it is much more loaded
// than the least loaded one, which is taken then and for what has no prefix anywhere. All requests of one
// task share their prompt, and those of one episode their history, so a task is remembered with the replica
// that served it last. Which replica serves changes no token; see NativeEngine.
class RouteTable {
 public:
  // A replica is much more loaded when it has more than 1.5 times the requests of the least loaded one and
  // kSlack. About kRemembered tasks are remembered, the latest ones.
  static constexpr int64_t kSlack = 16;
  static constexpr size_t kRemembered = size_t{1} << 16;

  // The index in `replicas`, -1 when none serves. Of equals the lowest index.
  int choose(const StreamKey& stream, std::span<const ReplicaLoad> replicas);
  // The replica's cache is gone.
  void forget(int replica);

 private:
  struct Key {
    uint64_t run_seed = 0;
    uint64_t task_ordinal = 0;
    RandomPurpose purpose = RandomPurpose::kTrain;
    auto operator<=>(const Key&) const = default;
  };
  int remembered(const Key& key) const;

  // Two generations: when the younger one is full, the older one is forgotten.
  std::map<Key, int> younger_;
  std::map<Key, int> older_;
};

}  // namespace stoker
