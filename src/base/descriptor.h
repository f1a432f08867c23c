#pragma once

#include <filesystem>
#include <string_view>

#include "base/error.h"

namespace stoker {

// Owns an open file descriptor and closes it. What its functions throw names the path, as base/file.h says.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  // -1 when it owns nothing.
  int get() const { return value_; }

 private:
  int value_ = -1;
};

// The Error of a failed system call with its errno: "Cannot write /x: No space left on device; free some
// space on that disk and run again." Input where the path is wrong, resource otherwise.
Error file_error(const char* verb, const std::filesystem::path& path, int code);

// open(2) with O_CLOEXEC and mode 0644; `verb` says in the Error what was to be done with the file.
Descriptor open_file(const std::filesystem::path& path, int flags, const char* verb);

// Writes all of `bytes` at the descriptor's position; errno of the failure, or 0. Part of the bytes may then
// be written.
int write_all(int descriptor, std::string_view bytes);

// Makes creations, removals and renames within `folder` durable; an empty path is the current folder.
void flush_folder(const std::filesystem::path& folder);

}  // namespace stoker
