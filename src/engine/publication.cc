#include "engine/publication.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"

namespace stoker {
namespace {

const char* name_of(ReplicaPhase phase) {
  switch (phase) {
    case ReplicaPhase::kPreparing:
      return "preparing";
    case ReplicaPhase::kPrepared:
      return "prepared";
    case ReplicaPhase::kLeftOut:
      return "left out";
    case ReplicaPhase::kCommitting:
      return "committing";
    case ReplicaPhase::kCommitted:
      return "committed";
    case ReplicaPhase::kInDoubt:
      return "in doubt";
  }
  return "?";
}

}  // namespace

const char* to_string(PublicationOutcome outcome) {
  switch (outcome) {
    case PublicationOutcome::kCommitted:
      return "committed";
    case PublicationOutcome::kAborted:
      return "aborted";
    case PublicationOutcome::kPartlyCommitted:
      return "partly_committed";
    case PublicationOutcome::kUnknown:
      return "unknown";
  }
  return "?";
}

Publication::Publication(int64_t version, int replicas) : version_(version) {
  if (replicas < 1) {
    throw internal_error(fmt::format("Version {} is published to no replica.", version));
  }
  phases_.assign(static_cast<size_t>(replicas), ReplicaPhase::kPreparing);
}

int Publication::count(ReplicaPhase phase) const {
  return static_cast<int>(std::count(phases_.begin(), phases_.end(), phase));
}

void Publication::move(int replica, ReplicaPhase from, ReplicaPhase to) {
  ReplicaPhase& phase = phases_.at(static_cast<size_t>(replica));
  if (phase != from) {
    throw internal_error(fmt::format("In the publication of version {} replica {} became '{}' while {}.",
                                     version_, replica, name_of(to), name_of(phase)));
  }
  phase = to;
}

void Publication::prepared(int replica) { move(replica, ReplicaPhase::kPreparing, ReplicaPhase::kPrepared); }

void Publication::not_prepared(int replica) {
  move(replica, ReplicaPhase::kPreparing, ReplicaPhase::kLeftOut);
}

bool Publication::preparation_over() const { return count(ReplicaPhase::kPreparing) == 0; }

bool Publication::start_commit() {
  if (!preparation_over() || committing_) {
    throw internal_error(fmt::format("The commit of version {} was begun {}.", version_,
                                     committing_ ? "twice" : "while replicas were being prepared"));
  }
  committing_ = true;
  std::replace(phases_.begin(), phases_.end(), ReplicaPhase::kPrepared, ReplicaPhase::kCommitting);
  return count(ReplicaPhase::kCommitting) > 0;
}

void Publication::committed(int replica) {
  move(replica, ReplicaPhase::kCommitting, ReplicaPhase::kCommitted);
}

void Publication::not_committed(int replica) {
  move(replica, ReplicaPhase::kCommitting, ReplicaPhase::kLeftOut);
}

void Publication::in_doubt(int replica) { move(replica, ReplicaPhase::kCommitting, ReplicaPhase::kInDoubt); }

bool Publication::over() const { return committing_ && count(ReplicaPhase::kCommitting) == 0; }

PublicationOutcome Publication::outcome() const {
  if (!over()) {
    throw internal_error(fmt::format("The publication of version {} has no outcome yet.", version_));
  }
  if (count(ReplicaPhase::kInDoubt) > 0) return PublicationOutcome::kUnknown;
  if (count(ReplicaPhase::kLeftOut) == 0) return PublicationOutcome::kCommitted;
  return count(ReplicaPhase::kCommitted) > 0 ? PublicationOutcome::kPartlyCommitted
                                             : PublicationOutcome::kAborted;
}

}  // namespace stoker
