#include <fmt/core.h>

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/command.h"
#include "rollout/event_log.h"

namespace stoker {

int run_replay(const std::filesystem::path& run_folder) {
  std::filesystem::path log = run_folder / "events.jsonl";
  std::vector<Json> lines;
  for_each_line(log, [&](std::string_view line, size_t number, bool complete) {
    if (complete) lines.push_back(Json::parse(line, fmt::format("{}, line {}", log.string(), number)));
    return true;
  });
  ReplayReport report = replay_event_log(lines);
  fmt::print("events     {}\ndecisions  {}\ndigest     {:016x}\n", report.events, report.decisions,
             report.digest);
  if (!report.difference) {
    fmt::print("The same events lead to the same decisions.\n");
    return kExitDone;
  }
  fmt::print("The decisions differ: {}\n", *report.difference);
  return kExitFailed;
}

}  // namespace stoker
