#include "rollout/event_log.h"

#include <array>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace stoker {
namespace {

constexpr std::array<const char*, 7> kEventNames = {"started",       "episode_finished", "trainer_ready",
                                                    "step_finished", "step_skipped",     "published",
                                                    "stop_requested"};
constexpr std::array<const char*, 9> kDecisionNames = {"start_episode", "cancel_episode", "consume_batch",
                                                       "drop_group",    "publish",        "finish",
                                                       "give_up",       "set_aside",      "set_depth"};

template <typename Kind, size_t kCount>
Kind kind_from_name(const std::array<const char*, kCount>& names, const std::string& name, const char* what) {
  for (size_t i = 0; i < kCount; ++i) {
    if (name == names[i]) return static_cast<Kind>(i);
  }
  throw input_error(fmt::format("An event log names the {} '{}', which does not exist.", what, name));
}

Json to_array(const std::vector<uint64_t>& ordinals) {
  Json::Array array;
  for (uint64_t ordinal : ordinals) array.push_back(ordinal);
  return Json::array(std::move(array));
}

std::vector<uint64_t> from_array(const Json& json) {
  std::vector<uint64_t> ordinals;
  for (const Json& ordinal : json.as_array()) ordinals.push_back(ordinal.as_uint());
  return ordinals;
}

std::string episode_name(const EpisodeId& id) {
  if (id.attempt == 0) return fmt::format("{}.{}", id.task_ordinal, id.sample);
  return fmt::format("{}.{}.{}", id.task_ordinal, id.sample, id.attempt);
}

// FNV-1a, 64 bits.
uint64_t extend_digest(uint64_t digest, std::string_view text) {
  for (unsigned char byte : text) digest = (digest ^ byte) * 0x100000001b3u;
  return digest;
}

}  // namespace

EpisodeId parse_episode_id(std::string_view text) {
  const auto refuse = [&] {
    return input_error(
        fmt::format("'{}' is no episode; one is written as task.sample or task.sample.attempt.", text));
  };
  std::array<uint64_t, 3> parts{};
  size_t count = 0;
  const char* at = text.data();
  const char* end = text.data() + text.size();
  while (true) {
    if (count == parts.size()) throw refuse();
    const auto [next, error] = std::from_chars(at, end, parts[count]);
    if (error != std::errc() || (count > 0 && parts[count] > UINT32_MAX)) throw refuse();
    ++count;
    if (next == end) break;
    if (*next != '.') throw refuse();
    at = next + 1;
  }
  if (count < 2) throw refuse();
  return {.task_ordinal = parts[0],
          .sample = static_cast<uint32_t>(parts[1]),
          .attempt = static_cast<uint32_t>(parts[2])};
}

Json RunEvent::to_json() const {
  Json::Object members;
  members.reserve(7);  // with the decisions of event_log_line
  const auto add = [&](const char* name, Json value) { members.emplace_back(name, std::move(value)); };
  add("event", kEventNames[static_cast<size_t>(kind)]);
  add("time", time);
  if (sampled_tokens != 0) add("sampled_tokens", sampled_tokens);
  switch (kind) {
    case RunEventKind::kStarted:
      add("version", version);
      add("trained_batches", trained_batches);
      add("first_ordinal", first_ordinal);
      if (!open_ordinals.empty()) add("open_ordinals", to_array(open_ordinals));
      break;
    case RunEventKind::kEpisodeFinished:
      add("episode", episode_name(episode));
      if (!failure.empty()) add("failure", failure);
      add("scored", scored);
      add("oldest_version", oldest_version);
      break;
    case RunEventKind::kStepFinished:
    case RunEventKind::kPublished:
      add("version", version);
      break;
    case RunEventKind::kTrainerReady:
    case RunEventKind::kStepSkipped:
    case RunEventKind::kStopRequested:
      break;
  }
  return Json::object(std::move(members));
}

RunEvent RunEvent::from_json(const Json& json) {
  RunEvent event;
  event.kind = kind_from_name<RunEventKind>(kEventNames, json.at("event").as_string(), "event");
  event.time = json.at("time").as_int();
  if (const Json* tokens = json.find("sampled_tokens")) event.sampled_tokens = tokens->as_int();
  switch (event.kind) {
    case RunEventKind::kStarted:
      event.version = json.at("version").as_int();
      event.trained_batches = json.at("trained_batches").as_int();
      event.first_ordinal = json.at("first_ordinal").as_uint();
      if (const Json* open = json.find("open_ordinals")) event.open_ordinals = from_array(*open);
      break;
    case RunEventKind::kEpisodeFinished:
      event.episode = parse_episode_id(json.at("episode").as_string());
      if (const Json* failure = json.find("failure")) event.failure = failure->as_string();
      event.scored = json.at("scored").as_bool();
      event.oldest_version = json.at("oldest_version").as_int();
      break;
    case RunEventKind::kStepFinished:
    case RunEventKind::kPublished:
      event.version = json.at("version").as_int();
      break;
    case RunEventKind::kTrainerReady:
    case RunEventKind::kStepSkipped:
    case RunEventKind::kStopRequested:
      break;
  }
  return event;
}

Json Decision::to_json() const {
  Json::Object members;
  members.reserve(3);
  const auto add = [&](const char* name, Json value) { members.emplace_back(name, std::move(value)); };
  add("decision", kDecisionNames[static_cast<size_t>(kind)]);
  switch (kind) {
    case DecisionKind::kStartEpisode:
    case DecisionKind::kCancelEpisode:
      add("episode", episode_name(episode));
      if (delay != 0) add("delay", delay);
      break;
    case DecisionKind::kConsumeBatch:
      add("version", version);
      add("groups", to_array(groups));
      break;
    case DecisionKind::kDropGroup:
    case DecisionKind::kSetAside:
      add("groups", to_array(groups));
      add("reason", reason);
      break;
    case DecisionKind::kPublish:
      add("version", version);
      break;
    case DecisionKind::kFinish:
    case DecisionKind::kGiveUp:
      add("reason", reason);
      break;
    case DecisionKind::kSetDepth:
      add("depth", depth);
      add("reason", reason);
      break;
  }
  return Json::object(std::move(members));
}

Decision Decision::from_json(const Json& json) {
  Decision decision;
  decision.kind = kind_from_name<DecisionKind>(kDecisionNames, json.at("decision").as_string(), "decision");
  if (const Json* episode = json.find("episode")) decision.episode = parse_episode_id(episode->as_string());
  if (const Json* groups = json.find("groups")) decision.groups = from_array(*groups);
  if (const Json* version = json.find("version")) decision.version = version->as_int();
  if (const Json* reason = json.find("reason")) decision.reason = reason->as_string();
  if (const Json* delay = json.find("delay")) decision.delay = delay->as_int();
  if (const Json* depth = json.find("depth")) decision.depth = static_cast<int32_t>(depth->as_int());
  return decision;
}

Json ControllerOptions::to_json() const {
  return Json::object({{"total_steps", total_steps},
                       {"groups_per_batch", groups_per_batch},
                       {"group_size", group_size},
                       {"max_concurrent_episodes", max_concurrent_episodes},
                       {"max_ahead", max_ahead},
                       {"extra_groups", extra_groups},
                       {"adaptive_depth", adaptive_depth},
                       {"max_staleness", max_staleness},
                       {"stale_action", to_string(stale_action)},
                       {"batch_order", to_string(batch_order)},
                       {"update_boundary", to_string(update_boundary)},
                       {"failures", Json::object({{"tool", to_string(failures.tool)},
                                                  {"environment", to_string(failures.environment)},
                                                  {"infrastructure", to_string(failures.infrastructure)},
                                                  {"reward", to_string(failures.reward)},
                                                  {"limit", to_string(failures.limit)}})},
                       {"max_attempts", max_attempts},
                       {"retry_backoff_seconds", retry_backoff_seconds},
                       {"failed_members", to_string(failed_members)},
                       {"max_refills", max_refills},
                       {"min_scored", min_scored},
                       {"max_task_failures", max_task_failures},
                       {"max_consecutive_drops", max_consecutive_drops},
                       {"end_ordinal", end_ordinal}});
}

ControllerOptions ControllerOptions::from_json(const Json& json) {
  const auto small = [&](const char* name) { return static_cast<int32_t>(json.at(name).as_int()); };
  const Json* boundary = json.find("update_boundary");  // absent: token
  const Json* adaptive = json.find("adaptive_depth");   // absent: false
  const Json* extra = json.find("extra_groups");        // absent: 0
  const auto action = [&](const char* name) {
    return failure_action_from_name(json.at("failures").at(name).as_string());
  };
  return {
      .total_steps = json.at("total_steps").as_int(),
      .groups_per_batch = small("groups_per_batch"),
      .group_size = small("group_size"),
      .max_concurrent_episodes = small("max_concurrent_episodes"),
      .max_ahead = small("max_ahead"),
      .extra_groups = extra ? static_cast<int32_t>(extra->as_int()) : 0,
      .adaptive_depth = adaptive != nullptr && adaptive->as_bool(),
      .max_staleness = json.at("max_staleness").as_int(),
      .stale_action = stale_action_from_name(json.at("stale_action").as_string()),
      .batch_order = batch_order_from_name(json.at("batch_order").as_string()),
      .update_boundary = boundary ? update_boundary_from_name(boundary->as_string()) : UpdateBoundary::kToken,
      .failures = {.tool = action("tool"),
                   .environment = action("environment"),
                   .infrastructure = action("infrastructure"),
                   .reward = action("reward"),
                   .limit = action("limit")},
      .max_attempts = small("max_attempts"),
      .retry_backoff_seconds = json.at("retry_backoff_seconds").as_double(),
      .failed_members = failed_member_policy_from_name(json.at("failed_members").as_string()),
      .max_refills = small("max_refills"),
      .min_scored = small("min_scored"),
      .max_task_failures = small("max_task_failures"),
      .max_consecutive_drops = small("max_consecutive_drops"),
      .end_ordinal = json.at("end_ordinal").as_uint()};
}

Json event_log_header(const ControllerOptions& options) {
  return Json::object({{"event_log", 1}, {"options", options.to_json()}});
}

Json event_log_line(const RunEvent& event, const std::vector<Decision>& decisions) {
  Json json = event.to_json();
  Json::Array array;
  array.reserve(decisions.size());
  for (const Decision& decision : decisions) array.push_back(decision.to_json());
  json.set("decisions", Json::array(std::move(array)));
  return json;
}

namespace {

std::unique_ptr<Controller> controller_from_header(const Json& header) {
  if (header.at("event_log").as_int() != 1) {
    throw input_error(
        fmt::format("its format is {}; this program reads format 1.", header.at("event_log").dump()));
  }
  return std::make_unique<Controller>(ControllerOptions::from_json(header.at("options")));
}

// One line of the log to the controller, into the report. Returns what differs.
std::optional<std::string> replay_line(const Json& line, Controller& controller, ReplayReport& report) {
  const RunEvent event = RunEvent::from_json(line);
  std::vector<Decision> logged;
  for (const Json& decision : line.at("decisions").as_array())
    logged.push_back(Decision::from_json(decision));
  const std::vector<Decision> decisions = controller.handle(event);
  ++report.events;
  report.decisions += static_cast<int64_t>(decisions.size());
  for (const Decision& decision : decisions) {
    report.digest = extend_digest(report.digest, decision.to_json().dump());
  }
  if (decisions == logged) return std::nullopt;
  return fmt::format("{}: logged {}, replayed {}", kEventNames[static_cast<size_t>(event.kind)],
                     line.at("decisions").dump(), event_log_line(event, decisions).at("decisions").dump());
}

}  // namespace

ReplayReport replay_event_log(std::span<const Json> lines) {
  if (lines.empty() || lines[0].find("event_log") == nullptr) {
    throw input_error(
        "This is no event log: its first line must hold \"event_log\" and the controller's options.");
  }
  std::unique_ptr<Controller> controller;
  ReplayReport report{.digest = 0xcbf29ce484222325u};
  for (size_t i = 0; i < lines.size(); ++i) {
    try {
      if (lines[i].find("event_log") != nullptr) {
        controller = controller_from_header(lines[i]);
        continue;
      }
      const std::optional<std::string> difference = replay_line(lines[i], *controller, report);
      if (difference && !report.difference)
        report.difference = fmt::format("line {}, {}", i + 1, *difference);
    } catch (const Error& error) {
      throw input_error(fmt::format("Line {} of the event log: {}", i + 1, error.what()));
    }
  }
  return report;
}

}  // namespace stoker
