#include "base/atomic_write.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "base/file.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

// `path` without a trailing slash, so that "a/" and "a" name the same target.
fs::path trimmed(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

// Temporary names are ".NAME.PROCESS.COUNT.tmp", and ".NAME.PROCESS.COUNT.tmp.old" for what is replaced.
constexpr std::string_view kOld = ".old";

// The temporary names that this process uses at the moment, with their folders.
struct NamesInUse {
  std::mutex mutex;
  std::set<std::string> names;
  uint64_t count = 0;
};

NamesInUse& names_in_use() {
  static NamesInUse* names = new NamesInUse;
  return *names;
}

// Gives a temporary name back to the sweeps when it is destroyed.
class TemporaryName {
 public:
  explicit TemporaryName(const fs::path& path) {
    NamesInUse& used = names_in_use();
    std::lock_guard lock(used.mutex);
    name_ =
        path.parent_path() / fmt::format(".{}.{}.{}.tmp", path.filename().string(), ::getpid(), used.count++);
    used.names.insert(name_.filename().string());
  }
  ~TemporaryName() {
    NamesInUse& used = names_in_use();
    std::lock_guard lock(used.mutex);
    used.names.erase(name_.filename().string());
  }
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;

  const fs::path& path() const { return name_; }
  fs::path old_path() const { return fs::path(name_) += kOld; }

 private:
  fs::path name_;
};

template <typename Integer>
bool take_number(std::string_view& text, Integer& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Whether `name` is a temporary name of `target` that nobody uses any more: its process is gone, or has this
// process's number but is not this one.
bool is_leftover(std::string_view name, const std::string& target) {
  std::string_view rest = name;
  pid_t process = 0;
  uint64_t count = 0;
  if (!take(rest, "." + target + ".") || !take_number(rest, process) || !take(rest, ".") ||
      !take_number(rest, count) || !take(rest, ".tmp") || (!rest.empty() && rest != kOld)) {
    return false;
  }
  if (process == ::getpid()) {
    NamesInUse& used = names_in_use();
    std::lock_guard lock(used.mutex);
    return !used.names.contains(std::string(name.substr(0, name.size() - rest.size())));
  }
  return process > 0 && ::kill(process, 0) != 0 && errno == ESRCH;
}

bool is_there(const fs::path& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0;
}

// Removes what ended processes have left of writing `path`. An old folder that one had moved away without
// putting the new one in its place gets its name back. What cannot be read or removed stays.
void sweep_leftovers(const fs::path& path) {
  std::error_code code;
  fs::path folder = path.parent_path();
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, code), end;
       !code && entry != end; entry.increment(code)) {
    fs::path name = entry->path().filename();
    if (is_leftover(name.string(), path.filename().string())) leftovers.push_back(folder / name);
  }
  for (const fs::path& leftover : leftovers) {
    bool old = leftover.string().ends_with(kOld);
    if (old && !is_there(path) && ::rename(leftover.c_str(), path.c_str()) == 0) continue;
    fs::remove_all(leftover, code);
  }
}

void flush_tree(const fs::path& folder) {
  std::error_code code;
  for (fs::recursive_directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    struct stat status;
    if (::lstat(entry->path().c_str(), &status) != 0) throw file_error("flush", entry->path(), errno);
    if (S_ISDIR(status.st_mode)) {
      flush_folder(entry->path());
    } else if (S_ISREG(status.st_mode)) {
      Descriptor descriptor = open_file(entry->path(), O_RDONLY, "open");
      if (::fsync(descriptor.get()) != 0) throw file_error("flush", entry->path(), errno);
    }
  }
  if (code) throw file_error("flush", folder, code.value());
  flush_folder(folder);
}

// A folder under a temporary name, removed with what it then holds.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& path) : name_(path) {
    if (::mkdir(name_.path().c_str(), 0755) != 0) throw file_error("create", path, errno);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(name_.path(), ignored);
    fs::remove_all(name_.old_path(), ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const fs::path& path() const { return name_.path(); }
  fs::path old_path() const { return name_.old_path(); }

 private:
  TemporaryName name_;
};

// Exchanges the names in one step; false where the file system cannot.
bool exchange_names(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) return false;
  throw file_error("replace", to, errno);
}

}  // namespace

void detail::write_folder(const fs::path& target, const std::function<void(const fs::path& folder)>& fill,
                          const FolderWriting& writing) {
  fs::path path = trimmed(target);
  sweep_leftovers(path);
  TemporaryFolder temporary(path);
  fill(temporary.path());
  writing.after_step(FolderStep::kFilled);
  flush_tree(temporary.path());
  writing.after_step(FolderStep::kFlushed);
  bool existed = is_there(path);
  if (!existed || !writing.exchange || !exchange_names(temporary.path(), path)) {
    fs::path old = temporary.old_path();
    if (existed) {
      if (::rename(path.c_str(), old.c_str()) != 0) throw file_error("replace", path, errno);
      writing.after_step(FolderStep::kMovedAway);
    }
    if (::rename(temporary.path().c_str(), path.c_str()) != 0) {
      int code = errno;
      if (existed) ::rename(old.c_str(), path.c_str());
      throw file_error("create", path, code);
    }
  }
  flush_folder(path.parent_path());
  writing.after_step(FolderStep::kInPlace);
}

void write_folder_atomic(const fs::path& path, const std::function<void(const fs::path& folder)>& fill) {
  detail::write_folder(path, fill, {});
}

// What a symbolic link names at last, so that the link stays; another path as it is.
fs::path behind_links(fs::path path) {
  constexpr int kMostLinks = 40;
  std::error_code code;
  for (int i = 0; i < kMostLinks && fs::is_symlink(fs::symlink_status(path, code)); ++i) {
    const fs::path target = fs::read_symlink(path, code);
    if (code) break;
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

// A device, a pipe or a socket: has no content that could be replaced, and must keep its place.
bool is_stream(const fs::path& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode) ||
                                                S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

struct AtomicFile::State {
  explicit State(const fs::path& target) : path(behind_links(target)), stream(is_stream(path)), name(path) {}

  fs::path path;
  bool stream;  // written at once
  TemporaryName name;
  Descriptor descriptor;
};

AtomicFile::AtomicFile(const fs::path& path) {
  auto state = std::make_unique<State>(path);
  if (state->stream) {
    state->descriptor = Descriptor(::open(state->path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  } else {
    sweep_leftovers(state->path);
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    state->descriptor = Descriptor(::open(state->name.path().c_str(), flags, 0644));
  }
  if (state->descriptor.get() < 0) throw file_error("write", path, errno);
  state_ = std::move(state);
}

AtomicFile::~AtomicFile() {
  if (state_ && !state_->stream) ::unlink(state_->name.path().c_str());
}

void AtomicFile::write(std::string_view bytes) {
  int code = write_all(state_->descriptor.get(), bytes);
  if (code != 0) throw file_error("write", state_->path, code);
}

void AtomicFile::commit() {
  if (state_->stream) {
    state_.reset();
    return;
  }
  if (::fsync(state_->descriptor.get()) != 0) throw file_error("write", state_->path, errno);
  if (::rename(state_->name.path().c_str(), state_->path.c_str()) != 0) {
    throw file_error("write", state_->path, errno);
  }
  std::unique_ptr<State> state = std::move(state_);
  flush_folder(state->path.parent_path());
}

void write_file_atomic(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

}  // namespace stoker
