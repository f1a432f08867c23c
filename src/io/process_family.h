#pragma once

#include <string>
#include <string_view>

#include "base/descriptor.h"

namespace stoker {

// Nothing that Stoker starts outlives it. Every child carries a marker in its environment, which whatever it
// starts inherits, in another session too. A process that ends takes those with its marker along; and a small
// watchdog, a shell that waits for Stoker's end (SIGKILL included) on a pipe, kills those of a family that
// are left then.

// The variable that holds the marker.
constexpr const char* kMarkerVariable = "STOKER_PROCESS";

// Sends SIGKILL to every process whose marker is `marker`, or starts with it when it ends with '.'. Gives how
// many there were. Reads /proc; of other users' processes nothing is seen.
int kill_marked(std::string_view marker);

class ProcessFamily {
 public:
  // Starts the watchdog; Error(kResource) when the machine refuses.
  ProcessFamily();
  // Kills what is left of the family and ends the watchdog.
  ~ProcessFamily();
  ProcessFamily(const ProcessFamily&) = delete;
  ProcessFamily& operator=(const ProcessFamily&) = delete;

  // The marker of the next member: unique on this machine.
  std::string next_marker();

  int watchdog() const { return watchdog_; }  // its process id

 private:
  std::string prefix_;  // of all markers; ends with '.'
  int members_ = 0;
  Descriptor lifeline_;  // the watchdog reads its other end
  int watchdog_ = -1;
};

}  // namespace stoker
