#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/engine.h"

namespace stoker {

// An engine that can be one of several: it takes new weights in two steps, and it may be lost and replaced.
class ReplicaEngine : public Engine {
 public:
  // Makes ready what commit() swaps in; the version before serves on. May be repeated, with other weights
  // too; the last ones count. Fails like publish().
  virtual Task<Result<Done>> prepare(WeightsPtr weights) = 0;
  // Swaps in the prepared weights between two decode steps; they must be of `version`. Returns when they
  // serve. Of a version that serves already: nothing happens.
  virtual Task<Result<Done>> commit(int64_t version) = 0;

  // It serves nothing any more, for good. Every request and call then ends with a failure of the class
  // infrastructure, soon.
  virtual bool lost() const = 0;
  // Calls `function` once, on the loop, when it is lost; it must not destroy the engine. Replaces the
  // function of an earlier call.
  virtual void when_lost(std::function<void()> function) = 0;
  // Makes it lost. `reason` is a clause for the log: "it did not answer within 60 s".
  virtual void abandon(const std::string& reason) = 0;
  // Why it is lost, as a clause; empty: it is not.
  virtual std::string lost_reason() const = 0;

  // It computes on the threads of this process, in turn with other such replicas.
  virtual bool computes_here() const = 0;
  // It can serve requests with a TokenMask.
  virtual bool takes_masks() const = 0;

  // Ends it; must have returned before it is destroyed. Requests in flight end as those of a lost one.
  virtual Task<> close() = 0;
};

// Makes one replica after the other: the first, and those that take the place of a lost one.
class ReplicaMaker {
 public:
  virtual ~ReplicaMaker() = default;
  // A replica that serves `weights`. Cancelling ends what was begun.
  virtual Task<Result<std::shared_ptr<ReplicaEngine>>> make(WeightsPtr weights) = 0;
  virtual std::string name() const = 0;  // for the log: "engine 1"
};

}  // namespace stoker
