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
#include "base/utf8.h"
#include "cli/command.h"
#include "model/gguf_tokenizer.h"
#include "model/model_directory.h"
#include "text/jinja/json_values.h"
#include "text/json_text.h"
#include "text/template_renderer.h"

namespace stoker {
namespace {

Error bad_row(size_t number, std::string_view reason) {
  return input_error(
      fmt::format("Line {} of the input {}; write an object with \"messages\", a list.", number, reason));
}

// Writes a line whole and at once: who asks line by line must not wait.
void put_row(std::ostream& output, const Json& row) {
  output << python_json(row) + "\n" << std::flush;
  if (!output) throw resource_error("The output could not be written; is its reader gone or the disk full?");
}

// Answers each line that is not blank with a row, answer(line, number); a wrong one with its error. Returns
// how many were wrong.
template <typename Answer>
size_t answer_rows(std::istream& input, std::ostream& output, Answer answer) {
  std::string line;
  size_t wrong = 0;
  for (size_t number = 1; std::getline(input, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Json row;
    try {
      row = answer(line, number);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      row = Json::object({{"error", error.what()}});
      ++wrong;
    }
    put_row(output, row);
  }
  if (input.bad()) throw resource_error("The input could not be read to its end; try again.");
  return wrong;
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
  const bool is_gguf = is_gguf_path(arguments.chat_template);
  std::optional<ChatTemplate> of_gguf;
  if (is_gguf) of_gguf = load_chat_template(arguments.chat_template);
  if (is_gguf && !of_gguf) {
    throw input_error(
        fmt::format("{} has no chat template; name a file that has one.", arguments.chat_template.string()));
  }
  ChatTemplate chat_template = is_gguf ? *std::move(of_gguf) : ChatTemplate::load(arguments.chat_template);
  if (chat_template.special_tokens().empty())
    chat_template.set_special_tokens(load_special_tokens_of_model(arguments.tokenizer));
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

// Variables of the template beyond what a row always has.
Json further_variables(const Json& row) {
  Json variables = Json::object();
  for (const auto& [name, value] : row.as_object()) {
    if (name != "messages" && name != "prefix_ids" && name != "tools" && name != "add_generation_prompt")
      variables.set(name, value);
  }
  return variables;
}

// Renderers of one template and tokenizer by the further variables of rows, which decide what a template
// does.
class Renderers {
 public:
  Renderers(TokenizerPtr tokenizer, const ChatTemplate& chat_template, const jinja::CivilTime& now)
      : tokenizer_(std::move(tokenizer)), template_(chat_template), now_(now) {}

  // Throws Error(kInput) where the template's turns end with no token of this tokenizer.
  const TemplateRenderer& of(const Json& variables) {
    constexpr size_t kMostKept = 64;
    std::string key = variables.dump();
    auto found = kept_.find(key);
    if (found != kept_.end()) return *found->second;
    auto made = std::make_unique<TemplateRenderer>(
        tokenizer_, template_, TemplateRendererOptions{.variables = variables, .now = now_});
    if (kept_.size() >= kMostKept) kept_.clear();
    return *kept_.emplace(std::move(key), std::move(made)).first->second;
  }

  // Tokens and authors of a row as it was rendered; where there is no renderer, the authors of the text.
  RenderedTokens tokens(const jinja::Rendered& rendered, const ChatInput& input, const std::string& line) {
    const TemplateRenderer* renderer = nullptr;
    try {
      Result<Json> row = Json::try_parse(line);
      renderer = &of(row ? further_variables(*row) : Json::object());
    } catch (const Error&) {
      return encode_marked(*tokenizer_, rendered.text, 0, rendered.text.size());
    }
    return renderer->to_tokens(rendered, assistants(input));
  }

 private:
  TokenizerPtr tokenizer_;
  const ChatTemplate& template_;
  jinja::CivilTime now_;
  std::map<std::string, std::unique_ptr<TemplateRenderer>> kept_;
};

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
  size_t wrong = 0;
  if (path.empty() || path == "-") {
    wrong = run(std::cin);
  } else {
    std::ifstream file(path, std::ios::binary);
    if (!file || std::filesystem::is_directory(path))
      throw input_error(
          fmt::format("{} cannot be read; name a file, or leave it out for standard input.", path.string()));
    wrong = run(file);
  }
  if (wrong == 0) return kExitDone;
  fmt::print(stderr, "stoker: {} of the input's rows could not be read; their errors stand in the output.\n",
             wrong);
  return kExitWrongUse;
}

}  // namespace

size_t render_conversations(const TextRenderArguments& arguments, std::istream& input, std::ostream& output) {
  jinja::CivilTime now = parse_date(arguments.date);
  ChatTemplate chat_template = load_template(arguments);
  TokenizerPtr tokenizer = arguments.tokenizer.empty() ? nullptr : load_tokenizer(arguments.tokenizer);
  Renderers renderers(tokenizer, chat_template, now);
  return answer_rows(input, output, [&](const std::string& line, size_t number) {
    ChatInput row = parse_input(line, number);
    Result<jinja::Rendered> rendered = chat_template.render(row, now);
    if (!rendered) return Json::object({{"error", rendered.failure().message}});
    Json answer = Json::object({{"text", to_valid_utf8(rendered->text.bytes())}});
    if (tokenizer != nullptr) add_tokens(answer, renderers.tokens(*rendered, row, line));
    return answer;
  });
}

size_t bridge_conversations(const TextRenderArguments& arguments, std::istream& input, std::ostream& output) {
  if (arguments.tokenizer.empty()) throw input_error("A bridge needs --tokenizer, which makes the ids.");
  jinja::CivilTime now = parse_date(arguments.date);
  ChatTemplate chat_template = load_template(arguments);
  Renderers renderers(load_tokenizer(arguments.tokenizer), chat_template, now);
  return answer_rows(input, output, [&](const std::string& line, size_t number) {
    Result<Json> row = Json::try_parse(line);
    if (!row) throw bad_row(number, "is no JSON: " + row.failure().message);
    if (!row->is_object() || row->find("messages") == nullptr) throw bad_row(number, "has no \"messages\"");
    return bridge_row(renderers.of(further_variables(*row)), *row, number);
  });
}

int run_text_render(const TextRenderArguments& arguments) {
  return with_rows(arguments.input,
                   [&](std::istream& input) { return render_conversations(arguments, input, std::cout); });
}

int run_text_bridge(const TextRenderArguments& arguments) {
  return with_rows(arguments.input,
                   [&](std::istream& input) { return bridge_conversations(arguments, input, std::cout); });
}

}  // namespace stoker
