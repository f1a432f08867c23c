#include "cli/output_file.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/file.h"

namespace stoker {

void check_output_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw file_error("write", path, EISDIR);
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) return;
  const AtomicFile trial(path);  // goes without commit()
}

void check_output_folder(const std::filesystem::path& path, const std::string& what) {
  std::error_code error;
  std::filesystem::path there = std::filesystem::absolute(path).lexically_normal();
  while (!std::filesystem::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  int code = ENOTDIR;
  if (std::filesystem::is_directory(there, error)) {
    code = ::access(there.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
  }
  if (code == 0) return;
  throw resource_error(fmt::format("The {} {} cannot be written: {} ({}); choose another place for it.", what,
                                   path.string(), std::generic_category().message(code), there.string()));
}

}  // namespace stoker
