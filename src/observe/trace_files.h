#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace stoker {

// The names of the files of a trace: trace-000001.perfetto-trace, trace-000002.perfetto-trace, ...

std::string trace_file_name(int64_t number);
// 0: no name of such a file.
int64_t trace_file_number(const std::filesystem::path& path);
// Those in the folder, by number; none where there is no folder.
std::vector<std::filesystem::path> trace_files(const std::filesystem::path& folder);

}  // namespace stoker
