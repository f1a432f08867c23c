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

#include "base/descriptor.h"
#include "base/error.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

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

// Exactly `size` bytes from `offset` on; a file that ends before has been cut meanwhile.
void read_at(int descriptor, char* buffer, size_t size, off_t offset, const fs::path& path) {
  while (size > 0) {
    ssize_t got = ::pread(descriptor, buffer, size, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw file_error("read", path, errno);
    if (got == 0) {
      throw resource_error(
          fmt::format("Cannot read {}: another process has cut it short meanwhile; let one "
                      "process at a time write it.",
                      path.string()));
    }
    buffer += got;
    size -= static_cast<size_t>(got);
    offset += got;
  }
}

size_t file_size(int descriptor, const fs::path& path) {
  struct stat status;
  if (::fstat(descriptor, &status) != 0) throw file_error("read", path, errno);
  if (S_ISDIR(status.st_mode)) throw file_error("read", path, EISDIR);
  return static_cast<size_t>(status.st_size);
}

}  // namespace

std::string read_file(const fs::path& path, size_t max_bytes) {
  Descriptor descriptor = open_file(path, O_RDONLY, "read");
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

LineWriter::LineWriter(const fs::path& path, bool append)
    : path_(path),
      descriptor_(open_file(path, append ? O_RDWR | O_CREAT : O_WRONLY | O_CREAT | O_TRUNC, "write")) {
  if (!append) return;
  auto size = static_cast<off_t>(file_size(descriptor_.get(), path));
  std::vector<char> buffer(size_t{1} << 16);
  while (size > 0) {  // walks back to the last '\n'
    size_t part = std::min<size_t>(buffer.size(), static_cast<size_t>(size));
    read_at(descriptor_.get(), buffer.data(), part, size - static_cast<off_t>(part), path);
    std::string_view text(buffer.data(), part);
    size_t newline = text.rfind('\n');
    if (newline != std::string_view::npos) {
      size -= static_cast<off_t>(part - newline - 1);
      break;
    }
    size -= static_cast<off_t>(part);
  }
  if (::ftruncate(descriptor_.get(), size) != 0) throw file_error("write", path, errno);
  if (::lseek(descriptor_.get(), size, SEEK_SET) < 0) throw file_error("write", path, errno);
}

void LineWriter::write_line(std::string_view line) {
  if (line.find('\n') != std::string_view::npos) {
    throw internal_error(fmt::format("A line for {} holds a line break.", path_.string()));
  }
  std::string whole;
  whole.reserve(line.size() + 1);
  whole.append(line).push_back('\n');
  off_t start = ::lseek(descriptor_.get(), 0, SEEK_CUR);
  int code = write_all(descriptor_.get(), whole);
  if (code != 0) {
    // A part of a line must not stand before the next one.
    if (start >= 0 && ::ftruncate(descriptor_.get(), start) == 0) ::lseek(descriptor_.get(), start, SEEK_SET);
    throw file_error("write", path_, code);
  }
}

void LineWriter::flush_to_disk() {
  if (::fsync(descriptor_.get()) != 0 && errno != EINVAL) throw file_error("flush", path_, errno);
}

void for_each_line(const fs::path& path,
                   const std::function<bool(std::string_view line, size_t line_number, bool complete)>& visit,
                   size_t max_line_bytes) {
  Descriptor descriptor = open_file(path, O_RDONLY, "read");
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
  Descriptor descriptor = open_file(path, O_RDONLY, "map");
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
