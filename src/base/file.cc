#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

// The error of a failed system call: "Cannot write /x: No space left on device; free some space ...".
Error file_error(const char* verb, const fs::path& path, int code) {
  const char* remedy = "";
  ErrorKind kind = ErrorKind::kResource;
  switch (code) {
    case ENOENT:
      kind = ErrorKind::kInput;
      remedy = "; check the path";
      break;
    case EISDIR:
    case ENOTDIR:
      kind = ErrorKind::kInput;
      remedy = "; check whether a file or a folder is meant";
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      remedy = "; change the permissions or choose another place";
      break;
    case ENOSPC:
    case EDQUOT:
      remedy = "; free some space on that disk and run again";
      break;
    case EMFILE:
    case ENFILE:
      remedy = "; raise the limit of open files (ulimit -n)";
      break;
    default:
      break;
  }
  return Error(kind, fmt::format("Cannot {} {}: {}{}.", verb, path.string(), std::strerror(code), remedy));
}

// Owns a file descriptor until released.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

int open_or_throw(const fs::path& path, int flags, const char* verb) {
  int descriptor;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) throw file_error(verb, path, errno);
  return descriptor;
}

// errno of the failure, or 0 when all bytes are written.
int write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    content.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

// Bytes read, fewer than asked only at the end of the file.
size_t read_some(int descriptor, char* buffer, size_t size, const fs::path& path) {
  size_t total = 0;
  while (total < size) {
    ssize_t got = ::read(descriptor, buffer + total, size - total);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw file_error("read", path, errno);
    if (got == 0) break;
    total += static_cast<size_t>(got);
  }
  return total;
}

size_t file_size(int descriptor, const fs::path& path) {
  struct stat status;
  if (::fstat(descriptor, &status) != 0) throw file_error("read", path, errno);
  if (S_ISDIR(status.st_mode)) throw file_error("read", path, EISDIR);
  return static_cast<size_t>(status.st_size);
}

// Makes a rename or creation within `folder` durable.
void sync_folder(const fs::path& folder) {
  Descriptor descriptor(
      open_or_throw(folder.empty() ? fs::path(".") : folder, O_RDONLY | O_DIRECTORY, "open"));
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL) throw file_error("flush", folder, errno);
}

// `path` without a trailing slash, so that "a/" and "a" name the same target.
fs::path trimmed(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

// A name beside `path` that no other process uses.
fs::path temporary_beside(const fs::path& path) {
  return path.parent_path() / fmt::format(".{}.{}.tmp", path.filename().string(), ::getpid());
}

void sync_tree(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) {
      sync_folder(entry.path());
    } else if (entry.is_regular_file()) {
      Descriptor descriptor(open_or_throw(entry.path(), O_RDONLY, "open"));
      if (::fsync(descriptor.get()) != 0) throw file_error("flush", entry.path(), errno);
    }
  }
  sync_folder(folder);
}

}  // namespace

std::string read_file(const fs::path& path, size_t max_bytes) {
  Descriptor descriptor(open_or_throw(path, O_RDONLY, "read"));
  size_t expected = file_size(descriptor.get(), path);
  std::string content;
  size_t length = 0;
  // Files of /proc say 0 bytes; so the end is found by reading, not believed.
  size_t step = std::max<size_t>(std::min(expected, max_bytes) + 1, 4096);
  while (true) {
    content.resize(length + step);
    size_t got = read_some(descriptor.get(), content.data() + length, step, path);
    length += got;
    if (length > max_bytes) {
      throw input_error(
          fmt::format("{} is larger than the {} bytes that are read at once.", path.string(), max_bytes));
    }
    if (got < step) break;
  }
  content.resize(length);
  return content;
}

void write_file_atomic(const fs::path& path, std::string_view content) {
  fs::path temporary = temporary_beside(path);
  Descriptor descriptor(open_or_throw(temporary, O_WRONLY | O_CREAT | O_TRUNC, "write"));
  int code = write_all(descriptor.get(), content);
  if (code == 0 && ::fsync(descriptor.get()) != 0) code = errno;
  if (code == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) code = errno;
  if (code != 0) {
    ::unlink(temporary.c_str());
    throw file_error("write", path, code);
  }
  sync_folder(path.parent_path());
}

void write_folder_atomic(const fs::path& target, const std::function<void(const fs::path& folder)>& fill) {
  fs::path path = trimmed(target);
  fs::path temporary = temporary_beside(path);
  fs::path old = temporary;
  old += ".old";
  std::error_code ignored;
  fs::remove_all(temporary, ignored);
  fs::remove_all(old, ignored);
  if (::mkdir(temporary.c_str(), 0755) != 0) throw file_error("create", path, errno);
  try {
    fill(temporary);
    sync_tree(temporary);
  } catch (...) {
    fs::remove_all(temporary, ignored);
    throw;
  }
  bool existed = fs::symlink_status(path).type() != fs::file_type::not_found;
  if (existed && ::rename(path.c_str(), old.c_str()) != 0) {
    int code = errno;
    fs::remove_all(temporary, ignored);
    throw file_error("replace", path, code);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    int code = errno;
    if (existed) ::rename(old.c_str(), path.c_str());
    fs::remove_all(temporary, ignored);
    throw file_error("create", path, code);
  }
  sync_folder(path.parent_path());
  fs::remove_all(old, ignored);
}

LineWriter::LineWriter(const fs::path& path, bool append) : path_(path) {
  Descriptor descriptor(
      open_or_throw(path, append ? O_RDWR | O_CREAT : O_WRONLY | O_CREAT | O_TRUNC, "write"));
  if (append) {
    off_t size = static_cast<off_t>(file_size(descriptor.get(), path));
    std::vector<char> buffer(size_t{1} << 16);
    while (size > 0) {  // walks back to the last '\n'
      size_t part = std::min<size_t>(buffer.size(), static_cast<size_t>(size));
      if (::pread(descriptor.get(), buffer.data(), part, size - static_cast<off_t>(part)) !=
          static_cast<ssize_t>(part)) {
        throw file_error("read", path, errno);
      }
      auto newline = std::find(buffer.rend() - static_cast<long>(part), buffer.rend(), '\n');
      size -= newline - (buffer.rend() - static_cast<long>(part));
      if (newline != buffer.rend()) break;
    }
    if (::ftruncate(descriptor.get(), size) != 0) throw file_error("write", path, errno);
    if (::lseek(descriptor.get(), size, SEEK_SET) < 0) throw file_error("write", path, errno);
  }
  descriptor_ = descriptor.release();
}

LineWriter::~LineWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

LineWriter::LineWriter(LineWriter&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

LineWriter& LineWriter::operator=(LineWriter&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void LineWriter::write_line(std::string_view line) {
  if (line.find('\n') != std::string_view::npos) {
    throw internal_error(fmt::format("A line for {} holds a line break.", path_.string()));
  }
  std::string whole;
  whole.reserve(line.size() + 1);
  whole.append(line).push_back('\n');
  off_t start = ::lseek(descriptor_, 0, SEEK_CUR);
  int code = write_all(descriptor_, whole);
  if (code != 0) {
    // A part of a line must not stand before the next one.
    if (start >= 0 && ::ftruncate(descriptor_, start) == 0) ::lseek(descriptor_, start, SEEK_SET);
    throw file_error("write", path_, code);
  }
}

void LineWriter::flush_to_disk() {
  if (::fsync(descriptor_) != 0 && errno != EINVAL) throw file_error("flush", path_, errno);
}

void for_each_line(const fs::path& path,
                   const std::function<bool(std::string_view line, size_t line_number, bool complete)>& visit,
                   size_t max_line_bytes) {
  Descriptor descriptor(open_or_throw(path, O_RDONLY, "read"));
  file_size(descriptor.get(), path);
  std::string buffer;
  size_t line_number = 1;
  constexpr size_t kStep = size_t{1} << 18;
  auto check_length = [&](size_t length) {
    if (length <= max_line_bytes) return;
    throw input_error(fmt::format(
        "{}, line {}: the line is longer than {} bytes; split it or check that the file has line breaks.",
        path.string(), line_number, max_line_bytes));
  };
  while (true) {
    size_t kept = buffer.size();
    buffer.resize(kept + kStep);
    size_t got = read_some(descriptor.get(), buffer.data() + kept, kStep, path);
    buffer.resize(kept + got);
    size_t start = 0;
    size_t newline = buffer.find('\n', kept);
    while (newline != std::string::npos) {
      check_length(newline - start);
      if (!visit(std::string_view(buffer).substr(start, newline - start), line_number, true)) return;
      ++line_number;
      start = newline + 1;
      newline = buffer.find('\n', start);
    }
    buffer.erase(0, start);
    check_length(buffer.size());
    if (got < kStep) break;
  }
  if (!buffer.empty()) visit(buffer, line_number, false);
}

MappedFile::MappedFile(const fs::path& path) {
  Descriptor descriptor(open_or_throw(path, O_RDONLY, "map"));
  size_ = file_size(descriptor.get(), path);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (address == MAP_FAILED) throw file_error("map", path, errno);
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace stoker
