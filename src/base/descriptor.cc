#include "base/descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace stoker {

namespace fs = std::filesystem;

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(value_, other.value_);
  return *this;
}

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

Descriptor open_file(const fs::path& path, int flags, const char* verb) {
  int descriptor;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) throw file_error(verb, path, errno);
  return Descriptor(descriptor);
}

int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

void flush_folder(const fs::path& folder) {
  Descriptor descriptor = open_file(folder.empty() ? fs::path(".") : folder, O_RDONLY | O_DIRECTORY, "open");
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL) throw file_error("flush", folder, errno);
}

}  // namespace stoker
