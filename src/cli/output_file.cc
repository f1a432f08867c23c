#include "cli/output_file.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/figure_report.h"
#include "base/file.h"

namespace stoker {
namespace {

void make_folder_of(const std::filesystem::path& path) {
  std::error_code error;  // told by the writing
  std::filesystem::create_directories(std::filesystem::absolute(path).parent_path(), error);
}

}  // namespace

void check_output_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw file_error("write", path, EISDIR);
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) return;
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  if (!std::filesystem::exists(folder, error)) return check_output_folder(folder, "folder");
  const AtomicFile trial(path);  // goes without commit()
}

void write_text(const std::string& text, const std::filesystem::path& path) {
  if (path.empty()) return;
  make_folder_of(path);
  write_file_atomic(path, text);
}

void write_figures(const FigureReport& report, const std::filesystem::path& path) {
  if (path.empty()) return;
  make_folder_of(path);
  report.write(path);
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
