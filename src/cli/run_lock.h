#pragma once

#include <filesystem>
#include <string>

#include "base/descriptor.h"

namespace stoker {

// The name of the lock file inside a run folder. It stays when the run ends.
constexpr const char* kRunLockFile = ".lock";

// Keeps a run folder to one process: flock(2) on the lock file inside it, held until the object dies or its
// process ends, however it ends. The file tells who holds it. A file system that cannot lock is told in a
// warning, and the run goes on without.
class RunLock {
 public:
  // Locks `folder`, which must exist. Throws Error(kInput) naming the folder and the process that writes into
  // it, and Error(kResource) when the lock file cannot be made.
  explicit RunLock(const std::filesystem::path& folder);

  // Throws the Error(kInput) of the constructor while another process holds the lock; leaves no trace.
  static void check_free(const std::filesystem::path& folder);

 private:
  Descriptor descriptor_;
};

}  // namespace stoker
