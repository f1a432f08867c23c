#include "observe/trace_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace stoker {
namespace {

constexpr std::string_view kPrefix = "trace-";
constexpr std::string_view kSuffix = ".perfetto-trace";

}  // namespace

std::string trace_file_name(int64_t number) { return fmt::format("{}{:06}{}", kPrefix, number, kSuffix); }

int64_t trace_file_number(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (name.size() <= kPrefix.size() + kSuffix.size()) return 0;
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return 0;
  const char* end = name.data() + name.size() - kSuffix.size();
  int64_t number = 0;
  const auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
  return error == std::errc() && at == end && number > 0 ? number : 0;
}

std::vector<std::filesystem::path> trace_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (trace_file_number(entry.path()) > 0) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return trace_file_number(a) < trace_file_number(b); });
  return files;
}

}  // namespace stoker
