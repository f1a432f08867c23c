#include <fmt/core.h>

#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/command.h"
#include "cli/run_folder.h"
#include "text/tokenizer.h"
#include "trajectory/episode_file.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

// Line breaks and control characters made visible, so that a token stays on its line.
std::string printable(std::string_view bytes) {
  std::string text;
  for (unsigned char c : bytes) {
    if (c == '\n')
      text += "\\n";
    else if (c < 0x20 || c == 0x7f)
      text += fmt::format("\\x{:02x}", c);
    else
      text += static_cast<char>(c);
  }
  return text;
}

std::string outcome(const EpisodeRecord& record) { return record.failure ? record.failure->name() : "done"; }
std::string reward_text(const EpisodeRecord& record) {
  return record.reward ? fmt::format("{:.3g}", *record.reward) : "-";
}

void list_episodes(const EpisodesArguments& arguments, const fs::path& folder) {
  fmt::print("{:<14}{:<18}{:>7}{:>8}{:>7}{:>8}{:>7}  {:<12}{}\n", "id", "purpose", "reward", "success",
             "turns", "tokens", "tools", "versions", "outcome");
  int64_t shown = 0, matching = 0;
  for_each_episode(folder, [&](const EpisodeRecord& record, const EpisodePlace&) {
    if (!arguments.purpose.empty() && record.purpose != arguments.purpose) return true;
    ++matching;
    if (shown >= arguments.limit) return true;
    ++shown;
    auto oldest = record.trajectory.oldest_version(), newest = record.trajectory.newest_version();
    std::string versions = !oldest              ? "-"
                           : *oldest == *newest ? std::to_string(*oldest)
                                                : fmt::format("{}-{}", *oldest, *newest);
    fmt::print("{:<14}{:<18}{:>7}{:>8}{:>7}{:>8}{:>7}  {:<12}{}\n", record.id.to_string(), record.purpose,
               reward_text(record), record.success ? "yes" : "no", record.trajectory.turn_count(),
               record.trajectory.size(), record.tool_calls, versions, outcome(record));
    return true;
  });
  if (matching > shown) fmt::print("{} of {} episodes; --limit N shows more.\n", shown, matching);
}

void show_tokens(const Trajectory& trajectory, const Tokenizer* tokenizer) {
  fmt::print("  {:>6} {:>7} {:<12}{:>5}{:>9} {:>14}  {}\n", "index", "id", "span", "mask", "version",
             "log-prob", "text");
  for (const Span& span : trajectory.spans()) {
    for (int32_t index = span.begin; index < span.end; ++index) {
      int32_t id = trajectory.tokens()[index];
      std::string text = tokenizer != nullptr ? printable(tokenizer->token_bytes(id)) : "";
      bool sampled = trajectory.has_log_probability(index);
      std::string version =
          !sampled ? "-" : fmt::format("{}{}", trajectory.version(index), trajectory.mixed(index) ? "*" : "");
      fmt::print("  {:>6} {:>7} {:<12}{:>5}{:>9} {:>14}  {}\n", index, id, to_string(span.kind),
                 trajectory.trained(index) ? 1 : 0, version,
                 sampled ? fmt::format("{:.7g}", trajectory.log_probability(index)) : "-", text);
    }
  }
}

void show_text(const Trajectory& trajectory, const Tokenizer& tokenizer) {
  int32_t turn = -1;
  for (const Span& span : trajectory.spans()) {
    if (span.turn != turn) fmt::print("-- turn {} --\n", turn = span.turn);
    std::string text = tokenizer.decode(trajectory.tokens().subspan(span.begin, span.end - span.begin));
    fmt::print("[{}]{}\n{}\n", to_string(span.kind),
               span.kind == SpanKind::kSampled ? fmt::format(" stop: {}", to_string(span.stop_reason)) : "",
               text);
  }
}

void show_episode(const EpisodeRecord& record, const Tokenizer* tokenizer, bool tokens) {
  fmt::print(
      "episode {} ({}), task {}: {}, reward {}, success {}, {} turns, {} tokens ({} sampled), {} tool calls "
      "({} "
      "errors)\n",
      record.id.to_string(), record.purpose, record.task_id, outcome(record), reward_text(record),
      record.success ? "yes" : "no", record.trajectory.turn_count(), record.trajectory.size(),
      record.trajectory.sampled_count(), record.tool_calls, record.tool_errors);
  if (record.failure) fmt::print("failure: {}\n", record.failure->message);
  for (const auto& [name, reward] : record.rewards) fmt::print("reward {}: {:.6g}\n", name, reward);
  if (tokenizer != nullptr) show_text(record.trajectory, *tokenizer);
  if (tokens || tokenizer == nullptr) show_tokens(record.trajectory, tokenizer);
}

}  // namespace

int run_episodes(const EpisodesArguments& arguments) {
  fs::path folder = arguments.run_folder / "episodes";
  if (!fs::is_directory(folder)) {
    throw input_error(fmt::format("{} is no run folder with episodes: it has no folder episodes/.",
                                  arguments.run_folder.string()));
  }
  if (arguments.id.empty()) {
    list_episodes(arguments, folder);
    return kExitDone;
  }
  TokenizerPtr tokenizer;
  if (fs::exists(arguments.run_folder / "tokenizer.json")) tokenizer = Tokenizer::load(arguments.run_folder);
  std::optional<EpisodeId> id = EpisodeId::parse(arguments.id);
  if (!id) {
    throw input_error(fmt::format(
        "\"{}\" is no episode id; ids are TASK.SAMPLE or TASK.SAMPLE.ATTEMPT, as 'stoker episodes {}' "
        "lists them.",
        arguments.id, arguments.run_folder.string()));
  }
  int found = 0;
  for (const EpisodeRecord& record : find_episodes(folder, *id)) {
    if (!arguments.purpose.empty() && record.purpose != arguments.purpose) continue;
    if (found++ > 0) fmt::print("\n");
    show_episode(record, tokenizer.get(), arguments.tokens);
  }
  if (found == 0) {
    throw input_error(fmt::format("Run {} has no episode {}{}; 'stoker episodes {}' lists what there is.",
                                  arguments.run_folder.string(), arguments.id,
                                  arguments.purpose.empty() ? "" : " of purpose " + arguments.purpose,
                                  arguments.run_folder.string()));
  }
  return kExitDone;
}

}  // namespace stoker
