#include "trajectory/episode_record.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "base/error.h"
#include "trajectory/record_reader.h"

namespace stoker {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

// Takes a decimal number without sign or leading zeros off the front of `text`.
template <typename Integer>
bool take_number(std::string_view& text, Integer& value) {
  if (text.empty() || (text.size() > 1 && text[0] == '0' && text[1] != '.')) return false;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool take_dot(std::string_view& text) {
  if (!text.starts_with('.')) return false;
  text.remove_prefix(1);
  return true;
}

Json finite(const EpisodeId& id, const std::string& name, double value) {
  if (std::isfinite(value)) return Json(value);
  throw internal_error(fmt::format("{} of episode {} is {}; a reward that is not finite is a failure.", name,
                                   id.to_string(), value));
}

Failure read_failure(const Json& json) {
  RecordReader record(json, "episode.failure", {"class", "reason", "message"});
  std::optional<FailureClass> failure_class = failure_class_from_string(record.text("class"));
  if (!failure_class) record.fail("class", fmt::format("unknown name \"{}\"", record.text("class")));
  return {*failure_class, record.text("reason"), record.text("message")};
}

}  // namespace

std::string EpisodeId::to_string() const {
  std::string text = fmt::format("{}.{}", task_ordinal, sample);
  if (attempt > 0) text += fmt::format(".{}", attempt);
  return text;
}

std::optional<EpisodeId> EpisodeId::parse(std::string_view text) {
  EpisodeId id;
  if (!take_number(text, id.task_ordinal) || !take_dot(text) || !take_number(text, id.sample)) {
    return std::nullopt;
  }
  if (text.empty()) return id;
  if (!take_dot(text) || !take_number(text, id.attempt) || !text.empty() || id.attempt == 0) {
    return std::nullopt;
  }
  return id;
}

Json EpisodeRecord::to_json() const {
  Json json = Json::object({{"id", id.to_string()}, {"task_id", task_id}, {"purpose", purpose}});
  if (failure) {
    json.set("failure", Json::object({{"class", stoker::to_string(failure->failure_class)},
                                      {"reason", failure->reason},
                                      {"message", failure->message}}));
  }
  if (reward) json.set("reward", finite(id, "The reward", *reward));
  Json::Object by_function;
  for (const auto& [name, value] : rewards) {
    by_function.emplace_back(name, finite(id, "The reward \"" + name + "\"", value));
  }
  json.set("rewards", Json::object(std::move(by_function)));
  json.set("success", success);
  json.set("tool_calls", tool_calls);
  json.set("tool_errors", tool_errors);
  json.set("start_time", start_time);
  json.set("end_time", end_time);
  json.set("trajectory", trajectory.to_json());
  return json;
}

EpisodeRecord EpisodeRecord::from_json(const Json& json) {
  RecordReader record(json, "episode",
                      {"id", "task_id", "purpose", "failure", "reward", "rewards", "success", "tool_calls",
                       "tool_errors", "start_time", "end_time", "trajectory"});
  EpisodeRecord result;
  std::optional<EpisodeId> id = EpisodeId::parse(record.text("id"));
  if (!id) record.fail("id", fmt::format("\"{}\" is no episode id such as \"17.3\"", record.text("id")));
  result.id = *id;
  result.task_id = record.text("task_id");
  result.purpose = record.text("purpose");
  if (const Json* failure = record.optional("failure")) result.failure = read_failure(*failure);
  if (record.optional("reward") != nullptr) result.reward = record.number("reward");
  const Json& rewards = record.required("rewards");
  if (!rewards.is_object()) record.fail("rewards", "expected an object");
  for (const auto& [name, value] : rewards.as_object()) {
    if (!value.is_number()) record.fail("rewards." + name, "expected a number");
    if (!result.rewards.emplace(name, value.as_double()).second) {
      record.fail("rewards." + name, "the member occurs twice");
    }
  }
  if (!record.required("success").is_bool()) record.fail("success", "expected a boolean");
  result.success = record.required("success").as_bool();
  result.tool_calls = static_cast<int32_t>(record.integer("tool_calls", 0, kMaxInt32));
  result.tool_errors = static_cast<int32_t>(record.integer("tool_errors", 0, kMaxInt32));
  result.start_time = record.integer("start_time", INT64_MIN, INT64_MAX);
  result.end_time = record.integer("end_time", INT64_MIN, INT64_MAX);
  result.trajectory = Trajectory::from_json(record.required("trajectory"));
  return result;
}

}  // namespace stoker
