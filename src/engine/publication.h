#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stoker {

// How a publication of weights to several replicas ended.
enum class PublicationOutcome {
  kCommitted,        // every replica that took part serves the new version
  kAborted,          // none of them does: each that is left serves the version before
  kPartlyCommitted,  // some serve the new version, the others certainly do not
  kUnknown,          // one was told to commit and has not said whether it did
};
// "committed", "aborted", "partly_committed", "unknown".
const char* to_string(PublicationOutcome outcome);

// What is known of one replica in a publication.
enum class ReplicaPhase {
  kPreparing,   // the new weights are on their way to it; it serves the version before
  kPrepared,    // it holds both and serves the version before
  kLeftOut,     // it will not serve the new version by this publication: it refused, was late, or is gone
  kCommitting,  // it was told to swap and has not answered
  kCommitted,   // it serves the new version
  kInDoubt,     // it was told to swap, and will not answer any more
};

// One publication as a state machine: events in, an outcome out; no clock and no engine. Every replica is
// prepared first; when all have answered, or their time is over, those that are prepared are told to commit,
// and only now can a replica change its version. So a replica never serves a half, and what each may serve is
// known at any time:
//
//   prepare -> prepared ----------> commit -> committed
//           \> not_prepared                 \> not_committed, in_doubt
//
// What an outcome asks of the owner before another version is published: after kPartlyCommitted the replicas
// that were left out leave the routing until they hold the version or are replaced; after kUnknown those in
// doubt are ended and replaced; after kAborted nothing has changed, and the same version may be offered
// again.
//
// A call that the phase does not allow throws Error(kInternal).
class Publication {
 public:
  // `replicas` at least 1; all are being prepared.
  Publication(int64_t version, int replicas);

  int64_t version() const { return version_; }
  ReplicaPhase phase(int replica) const { return phases_.at(static_cast<size_t>(replica)); }

  void prepared(int replica);
  void not_prepared(int replica);

  // Nobody is being prepared any more.
  bool preparation_over() const;
  // Tells the prepared ones to commit. False: there is none, and the publication is over.
  bool start_commit();

  void committed(int replica);
  void not_committed(int replica);  // it says that it did not
  void in_doubt(int replica);       // too late, or gone

  bool over() const;
  // Once over.
  PublicationOutcome outcome() const;

 private:
  void move(int replica, ReplicaPhase from, ReplicaPhase to);
  int count(ReplicaPhase phase) const;

  int64_t version_;
  bool committing_ = false;  // start_commit was called
  std::vector<ReplicaPhase> phases_;
};

}  // namespace stoker
