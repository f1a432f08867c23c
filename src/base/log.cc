#include "base/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "base/json.h"

namespace stoker {
namespace {

const char* level_name(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::debug:
      return "debug";
    case spdlog::level::warn:
      return "warning";
    case spdlog::level::err:
      return "error";
    default:
      return "info";
  }
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// Writes to standard error, whatever that descriptor is at the moment of the message.
class StandardErrorSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::atomic<bool> json = false;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (!json && ::isatty(STDERR_FILENO))
      std::fputs("\r\x1b[K", stderr);  // a progress bar may stand on this line
    std::string_view text(message.payload.data(), message.payload.size());
    std::string line;
    if (json) {
      line = Json::object({{"level", level_name(message.level)}, {"message", text}}).dump() + "\n";
    } else {
      const char* prefix = message.level == spdlog::level::info ? "" : level_name(message.level);
      line = fmt::format("{}{}{}\n", prefix, *prefix ? ": " : "", text);
    }
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
  void flush_() override { std::fflush(stderr); }
};

struct Log {
  std::shared_ptr<StandardErrorSink> standard_error = std::make_shared<StandardErrorSink>();
  spdlog::logger logger{"stoker", standard_error};
  std::mutex mutex;  // guards the list of sinks; each sink guards its own output

  Log() {
    logger.set_level(spdlog::level::info);
    logger.flush_on(spdlog::level::debug);
    // A full disk under log.txt must not end a run; metrics and checkpoints report it in their own words.
    logger.set_error_handler([](const std::string&) {});
  }
};

// Never destroyed, so that a message from a static destructor is safe.
Log& the_log() {
  static Log* log = new Log;
  return *log;
}

}  // namespace

void log_message(LogLevel level, std::string_view message) {
  Log& log = the_log();
  std::lock_guard lock(log.mutex);
  log.logger.log(to_spdlog(level), spdlog::string_view_t(message.data(), message.size()));
}

void set_log_level(LogLevel lowest) {
  Log& log = the_log();
  std::lock_guard lock(log.mutex);
  log.logger.set_level(to_spdlog(lowest));
}

void set_log_json(bool json) { the_log().standard_error->json = json; }

void open_log_file(const std::filesystem::path& path) {
  Log& log = the_log();
  try {
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string());
    file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    std::lock_guard lock(log.mutex);
    log.logger.sinks() = {log.standard_error, file};
  } catch (const spdlog::spdlog_ex& failure) {
    throw resource_error(
        fmt::format("Cannot open the log file {}: {}; choose a run folder that can be written.",
                    path.string(), failure.what()));
  }
}

}  // namespace stoker
