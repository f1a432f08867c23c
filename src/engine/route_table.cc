#include "engine/route_table.h"

#include <utility>

namespace stoker {

int RouteTable::remembered(const Key& key) const {
  if (const auto found = younger_.find(key); found != younger_.end()) return found->second;
  const auto found = older_.find(key);
  return found == older_.end() ? -1 : found->second;
}

int RouteTable::choose(const StreamKey& stream, std::span<const ReplicaLoad> replicas) {
  int least = -1;
  for (size_t i = 0; i < replicas.size(); ++i) {
    if (!replicas[i].serving) continue;
    if (least < 0 || replicas[i].requests < replicas[static_cast<size_t>(least)].requests)
      least = static_cast<int>(i);
  }
  if (least < 0) return -1;
  const Key key{stream.run_seed, stream.task_ordinal, stream.purpose};
  const int64_t least_requests = replicas[static_cast<size_t>(least)].requests;
  int chosen = remembered(key);
  if (chosen < 0 || !replicas[static_cast<size_t>(chosen)].serving ||
      replicas[static_cast<size_t>(chosen)].requests > least_requests + least_requests / 2 + kSlack) {
    chosen = least;
  }
  younger_[key] = chosen;
  if (younger_.size() >= kRemembered / 2) {
    older_ = std::move(younger_);
    younger_.clear();
  }
  return chosen;
}

void RouteTable::forget(int replica) {
  const auto of_replica = [replica](const auto& entry) { return entry.second == replica; };
  std::erase_if(younger_, of_replica);
  std::erase_if(older_, of_replica);
}

}  // namespace stoker
