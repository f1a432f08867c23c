#include "cli/text_render_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "model/gguf_tokenizer.h"
#include "text/jinja/json_values.h"
#include "text/template_renderer.h"

namespace stoker {
namespace {

Error bad_row(size_t number, std::string_view reason) {
  return input_error(
      fmt::format("Line {} of the input {}; write an object with \"messages\", a list.", number, reason));
}

// Calls visit(line, number) for each line that is not blank.
template <typename Visit>
void each_row(std::istream& input, Visit visit) {
  std::string line;
  for (size_t number = 1; std::getline(input, line); ++number) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) visit(line, number);
  }
  if (input.bad()) throw resource_error("The input could not be read to its end; try again.");
}

// Writes a line whole and at once: who asks line by line must not wait.
void put_row(std::ostream& output, const Json& row) {
  output << row.dump() + "\n" << std::flush;
  if (!output) throw resource_error("The output could not be written; is its reader gone or the disk full?");
}

jinja::CivilTime parse_date(const std::string& text) {
  jinja::CivilTime time{.month = 0};
  int read = std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d", &time.year, &time.month, &time.day,
                         &time.hour, &time.minute, &time.second);
  bool right = (read == 3 || read >= 5) && time.year >= 1900 && time.month >= 1 && time.month <= 12 &&
               time.day >= 1 && time.day <= 31 && time.hour >= 0 && time.hour < 24 && time.minute >= 0 &&
               time.minute < 60;
  if (!right) throw input_error(fmt::format("--date is 2024-07-26 or 2024-07-26T12:30, not '{}'.", text));
  return time;
}

ChatTemplate load_template(const TextRenderArguments& arguments) {
  ChatTemplate chat_template = ChatTemplate::load(arguments.chat_template);
  if (chat_template.special_tokens().empty() && std::filesystem::is_directory(arguments.tokenizer))
    chat_template.set_special_tokens(load_special_tokens(arguments.tokenizer));
  return chat_template;
}

// A row as the template is to see it.
ChatInput parse_input(const std::string& line, size_t number) {
  Result<jinja::Value> row = jinja::parse_json_value(line, {Author::kSystem, false});
  if (!row) throw bad_row(number, "is " + row.failure().message);
  if (row->dict() == nullptr) throw bad_row(number, "is no object");
  ChatInput input;
  bool has_messages = false;
  for (const auto& [key, value] : row->dict()->members) {
    const std::string& name = key.text()->bytes();
    if (name == "messages") {
      has_messages = value.is_list();
      input.messages = chat_messages(value);
    } else if (name == "tools") {
      input.tools = value;
    } else if (name == "add_generation_prompt") {
      input.add_generation_prompt = jinja::is_truthy(value);
    } else if (name.ends_with("_token") && value.is_text()) {
      input.variables.emplace_back(name, jinja::with_source(value, jinja::kTemplateSource));
    } else {
      input.variables.emplace_back(name, value);
    }
  }
  if (!has_messages) throw bad_row(number, "has no list \"messages\"");
  return input;
}

std::vector<bool> assistants(const ChatInput& input) {
  std::vector<bool> result;
  for (const jinja::Value& message : input.messages.list()->items) {
    const jinja::Value* role =
        message.dict() == nullptr ? nullptr : message.dict()->find(std::string_view("role"));
    result.push_back(role != nullptr && role->text() != nullptr && role->text()->bytes() == "assistant");
  }
  return result;
}

void add_tokens(Json& row, const RenderedTokens& tokens) {
  Json ids = Json::array();
  Json authors = Json::array();
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    ids.as_array().emplace_back(tokens.ids[i]);
    authors.as_array().emplace_back(to_string(tokens.authors[i]));
  }
  row.set("ids", std::move(ids));
  row.set("authors", std::move(authors));
}

// The renderer of template and tokenizer; none where the template's turns end with no token of this
// tokenizer.
std::unique_ptr<TemplateRenderer> renderer_if_possible(const TokenizerPtr& tokenizer,
                                                       const ChatTemplate& chat_template,
                                                       const jinja::CivilTime& now) {
  try {
    return std::make_unique<TemplateRenderer>(tokenizer, chat_template, TemplateRendererOptions{.now = now});
  } catch (const Error&) {
    return nullptr;
  }
}

std::vector<int32_t> prefix_of(const Json& row, size_t number) {
  const Json* ids = row.find("prefix_ids");
  std::vector<int32_t> prefix;
  if (ids == nullptr || !ids->is_array() || ids->as_array().empty())
    throw bad_row(number, "has no \"prefix_ids\", a list of the token ids so far");
  for (const Json& id : ids->as_array()) {
    bool fits = id.is_integer() && id.as_double() >= 0 && id.as_double() <= INT32_MAX;
    if (!fits) throw bad_row(number, fmt::format("holds {}, which is no token id", id.dump().substr(0, 40)));
    prefix.push_back(static_cast<int32_t>(id.as_int()));
  }
  return prefix;
}

// Variables of the template beyond what a bridge row always has.
Json further_variables(const Json& row) {
  Json variables = Json::object();
  for (const auto& [name, value] : row.as_object()) {
    if (name != "messages" && name != "prefix_ids" && name != "tools" && name != "add_generation_prompt")
      variables.set(name, value);
  }
  return variables;
}

Json bridge_row(const TemplateRenderer& renderer, const Json& row, size_t number) {
  std::string place = fmt::format("line {} of the input", number);
  std::vector<Message> messages = messages_from_json(row.at("messages"), place);
  Result<Bridge> bridge = renderer.bridge(prefix_of(row, number), messages);
  if (!bridge) return Json::object({{"error", bridge.failure().message}});
  if (const auto* rewritten = std::get_if<HistoryRewritten>(&*bridge)) {
    return Json::object(
        {{"rewrites", Json::object({{"message", rewritten->message}, {"reason", rewritten->reason}})}});
  }
  Json ids = Json::array();
  for (int32_t id : std::get<RenderedTokens>(*bridge).ids) ids.as_array().emplace_back(id);
  return Json::object({{"suffix_ids", std::move(ids)}});
}

template <typename Run>
int with_rows(const std::filesystem::path& path, Run run) {
  std::ios::sync_with_stdio(false);
  if (path.empty() || path == "-") {
    run(std::cin);
    return kExitDone;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path))
    throw input_error(
        fmt::format("{} cannot be read; name a file, or leave it out for standard input.", path.string()));
  run(file);
  return kExitDone;
}

}  // namespace

void render_conversations(const TextRenderArguments& arguments, std::istream& input, std::ostream& output) {
  jinja::CivilTime now = parse_date(arguments.date);
  ChatTemplate chat_template = load_template(arguments);
  TokenizerPtr tokenizer = arguments.tokenizer.empty() ? nullptr : load_tokenizer(arguments.tokenizer);
  std::unique_ptr<TemplateRenderer> renderer;
  if (tokenizer != nullptr) renderer = renderer_if_possible(tokenizer, chat_template, now);
  each_row(input, [&](const std::string& line, size_t number) {
    ChatInput row = parse_input(line, number);
    Result<jinja::Rendered> rendered = chat_template.render(row, now);
    if (!rendered) return put_row(output, Json::object({{"error", rendered.failure().message}}));
    Json answer = Json::object({{"text", rendered->text.bytes()}});
    if (renderer != nullptr) {
      add_tokens(answer, renderer->to_tokens(*rendered, assistants(row)));
    } else if (tokenizer != nullptr) {
      add_tokens(answer, encode_marked(*tokenizer, rendered->text, 0, rendered->text.size()));
    }
    put_row(output, answer);
  });
}

void bridge_conversations(const TextRenderArguments& arguments, std::istream& input, std::ostream& output) {
  if (arguments.tokenizer.empty()) throw input_error("A bridge needs --tokenizer, which makes the ids.");
  jinja::CivilTime now = parse_date(arguments.date);
  ChatTemplate chat_template = load_template(arguments);
  TokenizerPtr tokenizer = load_tokenizer(arguments.tokenizer);
  std::map<std::string, std::unique_ptr<TemplateRenderer>> renderers;  // by their variables
  each_row(input, [&](const std::string& line, size_t number) {
    Result<Json> row = Json::try_parse(line);
    if (!row) throw bad_row(number, "is no JSON: " + row.failure().message);
    if (!row->is_object() || row->find("messages") == nullptr) throw bad_row(number, "has no \"messages\"");
    Json variables = further_variables(*row);
    std::unique_ptr<TemplateRenderer>& renderer = renderers[variables.dump()];
    if (renderer == nullptr) {
      renderer = std::make_unique<TemplateRenderer>(
          tokenizer, chat_template, TemplateRendererOptions{.variables = std::move(variables), .now = now});
    }
    put_row(output, bridge_row(*renderer, *row, number));
  });
}

int run_text_render(const TextRenderArguments& arguments) {
  return with_rows(arguments.input,
                   [&](std::istream& input) { render_conversations(arguments, input, std::cout); });
}

int run_text_bridge(const TextRenderArguments& arguments) {
  return with_rows(arguments.input,
                   [&](std::istream& input) { bridge_conversations(arguments, input, std::cout); });
}

}  // namespace stoker
