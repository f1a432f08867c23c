#include "trajectory/episode_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".jsonl";
// A record of the longest trajectories of millions of tokens stays below this.
constexpr size_t kMaxLineBytes = size_t{1} << 30;

fs::path file_name(uint32_t number) { return fmt::format("{:06}{}", number, kExtension); }

// The number of a file that EpisodeWriter named.
std::optional<uint32_t> file_number(const fs::path& path) {
  std::string name = path.filename().string();
  uint32_t number = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || file_name(number) != fs::path(name)) return std::nullopt;
  return number;
}

std::vector<std::pair<uint32_t, fs::path>> numbered_files(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) {
    throw input_error(fmt::format("Cannot read the episodes in {}: {}; check the path of the run folder.",
                                  folder.string(), error.message()));
  }
  std::vector<std::pair<uint32_t, fs::path>> files;
  for (const fs::directory_entry& entry : entries) {
    std::optional<uint32_t> number = file_number(entry.path());
    if (number && entry.is_regular_file()) files.emplace_back(*number, entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

EpisodeRecord parse_record(std::string_view line, const EpisodePlace& place) {
  std::string what = fmt::format("{}, line {}", place.file.string(), place.line);
  Json json = Json::parse(line, what);
  try {
    return EpisodeRecord::from_json(json);
  } catch (const Error& error) {
    throw input_error(fmt::format("{}: {}", what, error.what()));
  }
}

// Visits the whole lines of all files.
void for_each_record_line(
    const fs::path& folder,
    const std::function<bool(std::string_view line, const EpisodePlace& place)>& visit) {
  bool going_on = true;
  for (const fs::path& file : list_episode_files(folder)) {
    auto visit_line = [&](std::string_view line, size_t number, bool complete) {
      if (!complete) {
        log_warning("{}, line {} was cut while it was written; it is passed over.", file.string(), number);
        return true;
      }
      going_on = visit(line, {file, number});
      return going_on;
    };
    for_each_line(file, visit_line, kMaxLineBytes);
    if (!going_on) return;
  }
}

}  // namespace

EpisodeWriter::EpisodeWriter(fs::path folder, size_t max_file_bytes)
    : folder_(std::move(folder)), max_file_bytes_(max_file_bytes) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    throw resource_error(fmt::format("Cannot create the folder {}: {}; choose another place for the run.",
                                     folder_.string(), error.message()));
  }
  auto files = numbered_files(folder_);
  open(files.empty() ? 0 : files.back().first);
}

void EpisodeWriter::open(uint32_t number) {
  fs::path path = folder_ / file_name(number);
  number_ = number;
  writer_.emplace(path, true);
  file_bytes_ = static_cast<size_t>(fs::file_size(path));
}

void EpisodeWriter::append(const EpisodeRecord& record) {
  if (file_bytes_ >= max_file_bytes_) open(number_ + 1);
  std::string line = record.to_json().dump();
  writer_->write_line(line);
  file_bytes_ += line.size() + 1;
}

void EpisodeWriter::flush_to_disk() { writer_->flush_to_disk(); }

std::vector<fs::path> list_episode_files(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (auto& [number, path] : numbered_files(folder)) paths.push_back(std::move(path));
  return paths;
}

void for_each_episode(
    const fs::path& folder,
    const std::function<bool(const EpisodeRecord& record, const EpisodePlace& place)>& visit) {
  for_each_record_line(folder, [&](std::string_view line, const EpisodePlace& place) {
    return visit(parse_record(line, place), place);
  });
}

std::vector<EpisodeRecord> find_episodes(const fs::path& folder, const EpisodeId& id) {
  // Records start with their id, so that other lines need no parsing.
  std::string start = fmt::format("{{\"id\":\"{}\",", id.to_string());
  std::vector<EpisodeRecord> records;
  for_each_record_line(folder, [&](std::string_view line, const EpisodePlace& place) {
    if (line.starts_with(start)) records.push_back(parse_record(line, place));
    return true;
  });
  return records;
}

void keep_episodes(const fs::path& folder, const std::function<bool(const EpisodeRecord& record)>& keep) {
  for (const fs::path& file : list_episode_files(folder)) {
    std::string kept;
    bool changed = false;
    for_each_line(file, [&](std::string_view line, size_t number, bool complete) {
      bool stays = complete && keep(EpisodeRecord::from_json(
                                   Json::parse(line, file.string() + ", line " + std::to_string(number))));
      changed = changed || !stays;
      if (stays) kept.append(line).push_back('\n');
      return true;
    });
    if (changed) write_file_atomic(file, kept);
  }
}

}  // namespace stoker
