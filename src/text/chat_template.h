#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/jinja/template.h"
#include "text/message.h"

namespace stoker {

// Text of special tokens by their names in transformers, {"bos_token", "<s>"}, as templates know them.
using SpecialTokenNames = std::vector<std::pair<std::string, std::string>>;

// What a chat template is rendered with. Text remembers who wrote it: a message's author its role's, tools
// the system; none of it is trusted.
struct ChatInput {
  jinja::Value messages;  // a list of dicts, made by one of the functions below
  jinja::Value tools;     // undefined: none
  bool add_generation_prompt = false;
  jinja::Variables variables;  // further ones; they hide the template's special tokens of the same name
};

// OpenAI's JSON form, kept as it is: what the template reads is what was given. A value that is no list, or
// holds others than objects, is left to the template.
jinja::Value chat_messages(const jinja::Value& json);
// Call arguments given as text that holds a JSON object are decoded once (shared case TPL-09).
jinja::Value chat_messages(std::span<const Message> messages);
// Undefined for no tools.
jinja::Value chat_tools(std::span<const ToolSchema> tools);

// A model's chat template, as transformers loads and renders it: one template, or several by name, of which
// "tool_use" serves conversations with tools. Immutable; any number of threads may use one.
class ChatTemplate {
 public:
  // `path`: a Jinja file, a JSON file with the member "chat_template", or a model directory, whose
  // chat_template.jinja, chat_template.json or tokenizer_config.json is read, and whose special tokens. What
  // is missing or broken throws Error(kInput) naming file, line and column.
  static ChatTemplate load(const std::filesystem::path& path);
  // The members "chat_template" and "bos_token", "eos_token", ... of a tokenizer_config.json that `what`
  // names.
  static ChatTemplate from_json(const Json& tokenizer_config, const std::string& what);
  static ChatTemplate from_source(const std::string& source, SpecialTokenNames tokens = {},
                                  const std::string& what = "the chat template");
  // Whether the directory brings a template.
  static bool is_in(const std::filesystem::path& directory);

  // Error and refusals of the template are Failures (environment.template).
  Result<jinja::Rendered> render(const ChatInput& input, const jinja::CivilTime& now = {},
                                 const jinja::RenderLimits& limits = {}) const;

  const SpecialTokenNames& special_tokens() const { return tokens_; }
  void set_special_tokens(SpecialTokenNames tokens) { tokens_ = std::move(tokens); }
  // The Jinja text of the template for conversations with or without tools.
  const std::string& source(bool with_tools) const { return chosen(with_tools).source; }

 private:
  struct Named {
    std::string name;  // "default" for the only one
    std::string source;
    jinja::Template compiled;
  };

  const Named& chosen(bool with_tools) const;
  void add(const std::string& name, const std::string& source, const std::string& what);
  void add_json(const Json& json, const std::string& what);

  std::vector<Named> templates_;
  SpecialTokenNames tokens_;
};

// The special tokens that a tokenizer_config.json names.
SpecialTokenNames special_tokens_of(const Json& tokenizer_config);
// Those of a model directory; none where it has no tokenizer_config.json.
SpecialTokenNames load_special_tokens(const std::filesystem::path& directory);

}  // namespace stoker
