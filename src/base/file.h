#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/descriptor.h"

namespace stoker {

// Files. Every failure is an Error that names the file, what happened (errno's words) and what to do.

// The whole file; refuses more than `max_bytes`.
std::string read_file(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 32);

// Writes beside `path`, flushes to the disk and renames: `path` holds the old or the new content, never a
// part. Like the two below it first removes what writers of `path` that have ended part-way left beside it;
// so all writers of one path share one machine. A symbolic link stays and what it names is replaced; a device
// or a pipe is written to as it is.
void write_file_atomic(const std::filesystem::path& path, std::string_view content);

// The same for content that comes in parts: nothing is at `path` before commit(), and without it nothing
// stays.
//
//   AtomicFile file(path);
//   file.write(header);
//   file.write(data);
//   file.commit();
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  // Flushes and renames; the last call.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;  // null once committed
};

// Creates `path` as a folder filled by `fill` under a temporary name beside it, flushed and put in place: the
// two names are exchanged in one step, so that a whole folder is at `path` at any time. A file system that
// cannot exchange has the old one under another name for a moment; should the process end then, the next
// write gives it its name back. The temporary folder is removed when `fill` throws.
void write_folder_atomic(const std::filesystem::path& path,
                         const std::function<void(const std::filesystem::path& folder)>& fill);

// An append-only file of lines (metrics, event logs). A line is written whole by one write; a cut last line
// of an earlier crash is removed on opening for append. Not thread-safe.
class LineWriter {
 public:
  explicit LineWriter(const std::filesystem::path& path, bool append = false);

  void write_line(std::string_view line);
  void flush_to_disk();

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
};

// Calls `visit(line, line_number)` for each line, split on '\n' only; stops when it returns false. A last
// line without '\n' is visited too, with `complete` false. Holds one line in memory; a line over
// `max_line_bytes` is an Error.
void for_each_line(const std::filesystem::path& path,
                   const std::function<bool(std::string_view line, size_t line_number, bool complete)>& visit,
                   size_t max_line_bytes = size_t{64} << 20);

// A read-only memory map of a whole file; unmapped on destruction.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace stoker
