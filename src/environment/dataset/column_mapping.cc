#include "environment/dataset/column_mapping.h"

#include <fmt/core.h>

#include <initializer_list>

#include "base/error.h"

namespace stoker {
namespace {

std::string first_present(const Json& row, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (column(row, name) != nullptr) return name;
  }
  return "";
}

std::string format_of(const Json& row) {
  if (column(row, "responses_create_params.input") != nullptr) return "nemo_gym";
  if (column(row, "reward_model.ground_truth") != nullptr) return "verl";
  if (row.find("prompt") == nullptr && row.find("question") != nullptr) return "verifiers";
  return "trl";
}

// A message as NeMo Gym has it, in the form of chat completions.
Json chat_message(const Json& item) {
  if (!item.is_object()) return item;
  Json message = Json::object();
  for (const auto& [name, value] : item.as_object()) {
    if (name == "type" && value == Json("message")) continue;
    if (name == "role" && value == Json("developer")) {
      message.set(name, "system");
    } else if (name == "content" && value.is_array()) {
      Json parts = Json::array();
      for (Json part : value.as_array()) {
        const Json* type = part.find("type");
        if (type != nullptr && (*type == Json("input_text") || *type == Json("output_text"))) {
          part.set("type", "text");
        }
        parts.as_array().push_back(std::move(part));
      }
      message.set(name, std::move(parts));
    } else {
      message.set(name, value);
    }
  }
  return message;
}

}  // namespace

std::vector<std::string> dataset_formats() { return {"auto", "trl", "verl", "nemo_gym", "verifiers"}; }

ColumnMapping mapping_of(const std::string& format, const Json& row) {
  if (format == "auto") return mapping_of(format_of(row), row);
  if (format == "verl") return {.prompt = "prompt", .answer = "reward_model.ground_truth", .id = "id"};
  if (format == "nemo_gym") {
    return {.prompt = "responses_create_params.input",
            .answer = first_present(row, {"answer", "expected_answer", "ground_truth"}),
            .id = "id"};
  }
  if (format == "verifiers") {
    return {.prompt = row.find("prompt") != nullptr ? "prompt" : "question", .answer = "answer", .id = "id"};
  }
  const std::string prompt = first_present(row, {"prompt", "messages"});
  return {.prompt = prompt.empty() ? "prompt" : prompt,
          .answer = first_present(row, {"answer", "solution", "ground_truth", "label"}),
          .id = "id"};
}

const Json* column(const Json& row, std::string_view path) {
  if (path.empty()) return nullptr;
  if (const Json* whole = row.find(path)) return whole;
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const Json* outer = row.find(path.substr(0, dot));
  return outer == nullptr ? nullptr : column(*outer, path.substr(dot + 1));
}

std::vector<Message> mapped_messages(const Json& row, const ColumnMapping& mapping,
                                     const std::string& place) {
  const Json* prompt = column(row, mapping.prompt);
  if (prompt == nullptr) {
    std::string known;
    for (const auto& [name, value] : row.as_object()) known += (known.empty() ? "" : ", ") + name;
    throw input_error(
        fmt::format("{}: the row has no column \"{}\" for the prompt; it has {}. Name another "
                    "with prompt_column, or the format.",
                    place, mapping.prompt, known.empty() ? "none" : known));
  }
  if (prompt->is_string()) return {Message{.role = Role::kUser, .content = prompt->as_string()}};
  if (!prompt->is_array()) {
    throw input_error(fmt::format("{}: \"{}\" must be a text or a list of messages, but is {}.", place,
                                  mapping.prompt, prompt->type_name()));
  }
  Json items = Json::array();
  for (const Json& item : prompt->as_array()) items.as_array().push_back(chat_message(item));
  std::vector<Message> messages = messages_from_json(items, fmt::format("{}, \"{}\"", place, mapping.prompt));
  if (messages.empty() || messages.back().role == Role::kAssistant) {
    throw input_error(fmt::format("{}: \"{}\" must end with what the assistant answers to, but {}.", place,
                                  mapping.prompt,
                                  messages.empty() ? "is empty" : "ends with an assistant's message"));
  }
  return messages;
}

std::optional<std::string> mapped_answer(const Json& row, const ColumnMapping& mapping) {
  const Json* answer = column(row, mapping.answer);
  if (answer == nullptr) return std::nullopt;
  if (answer->is_string()) return answer->as_string();
  if (answer->is_number()) return answer->dump();
  return std::nullopt;
}

}  // namespace stoker
