#pragma once

#include <filesystem>
#include <string_view>

#include <fmt/core.h>

namespace stoker {

// The log: one line a message to standard error and, once opened, to the run folder's log.txt. Thread-safe.
enum class LogLevel { kDebug, kInfo, kWarning, kError };

void log_message(LogLevel level, std::string_view message);
void set_log_level(LogLevel lowest);
void set_log_json(bool json);  // --log-json: one JSON object a line on standard error
void open_log_file(const std::filesystem::path& path);

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace stoker
