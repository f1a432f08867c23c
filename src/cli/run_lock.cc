#include "cli/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/log.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// What the lock file says about its holder: "process 17 on HOST", without the host when it is this one.
std::string holder(int descriptor) {
  std::array<char, 512> buffer{};
  const ssize_t size = ::pread(descriptor, buffer.data(), buffer.size(), 0);
  std::string text(buffer.data(), size > 0 ? static_cast<size_t>(size) : 0);
  text = text.substr(0, text.find('\n'));
  const std::string here = " on " + host_name();
  if (text.ends_with(here)) text.resize(text.size() - here.size());
  return text.empty() ? "another process" : text;
}

Error in_use(const fs::path& folder, int descriptor) {
  return input_error(
      fmt::format("The run folder {} is in use by {}; wait for its end or stop it, or choose another folder "
                  "with output=FOLDER.",
                  folder.string(), holder(descriptor)));
}

// flock without waiting: 0, or errno.
int lock_now(int descriptor, int operation) {
  while (::flock(descriptor, operation | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

RunLock::RunLock(const fs::path& folder)
    : descriptor_(open_file(folder / kRunLockFile, O_RDWR | O_CREAT, "write")) {
  const int code = lock_now(descriptor_.get(), LOCK_EX);
  if (code == EWOULDBLOCK) throw in_use(folder, descriptor_.get());
  if (code != 0) {
    log_warning(
        "The file system of {} cannot lock files ({}): let no other command write into this run folder.",
        folder.string(), std::generic_category().message(code));
  }
  const std::string text = fmt::format("process {} on {}\n", ::getpid(), host_name());
  if (::ftruncate(descriptor_.get(), 0) != 0 || write_all(descriptor_.get(), text) != 0) {
    log_debug("{} could not be written; the lock holds without it.", (folder / kRunLockFile).string());
  }
}

// A shared lock for a moment; who locks in that very moment is refused as by a holder.
void RunLock::check_free(const fs::path& folder) {
  const Descriptor descriptor(::open((folder / kRunLockFile).c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) return;
  if (lock_now(descriptor.get(), LOCK_SH) == EWOULDBLOCK) throw in_use(folder, descriptor.get());
}

}  // namespace stoker
