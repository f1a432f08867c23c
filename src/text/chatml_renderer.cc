#include "text/chatml_renderer.h"

#include <fmt/format.h>

#include "base/error.h"
#include "text/json_text.h"

namespace stoker {
namespace {

// Collects what is written, by whom and with what trust, and turns it into tokens in stretches that are
// encoded as one text each.
class Writer {
 public:
  explicit Writer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    text_.reserve(512);
    ranges_.reserve(16);
    authors_.reserve(16);
  }

  // Text of the template itself: may hold control tokens.
  void trusted(std::string_view text, Author author = Author::kTemplate) {
    add(text, author, AddedTokens::kAll);
  }
  // Text of others: stays text.
  void plain(std::string_view text, Author author) { add(text, author, AddedTokens::kPlain); }
  // What follows is encoded on its own, as it is when generation starts here.
  void boundary() { flush(); }

  RenderedTokens take() {
    flush();
    return std::move(tokens_);
  }

 private:
  void add(std::string_view text, Author author, AddedTokens added_tokens) {
    if (text.empty()) return;
    const size_t begin = text_.size();
    text_ += text;
    ranges_.push_back({begin, text_.size(), added_tokens});
    authors_.push_back(author);
  }

  // A token over several ranges is of the author of its first byte.
  void flush() {
    const std::vector<EncodedToken> encoded = tokenizer_.encode_ranges(text_, ranges_);
    tokens_.ids.reserve(tokens_.ids.size() + encoded.size());
    tokens_.authors.reserve(tokens_.authors.size() + encoded.size());
    size_t range = 0;
    for (const EncodedToken& token : encoded) {
      while (token.begin >= ranges_[range].end) ++range;
      tokens_.ids.push_back(token.id);
      tokens_.authors.push_back(authors_[range]);
    }
    text_.clear();
    ranges_.clear();
    authors_.clear();
  }

  const Tokenizer& tokenizer_;
  std::string text_;
  std::vector<TrustRange> ranges_;  // of text_
  std::vector<Author> authors_;     // of the ranges
  RenderedTokens tokens_;
};

void write_turn(Writer& writer, std::string_view role, std::string_view content, Author author) {
  writer.trusted("<|im_start|>");
  writer.trusted(role);
  writer.trusted("\n");
  writer.plain(content, author);
  writer.trusted("<|im_end|>\n");
}

// The system turn with the tools' schemas; the wording is the one Qwen's models were trained on.
void write_tools(Writer& writer, bool has_system, std::string_view system_prompt,
                 std::span<const ToolSchema> tools) {
  writer.trusted("<|im_start|>system\n");
  writer.plain(system_prompt, Author::kSystem);
  if (has_system || !system_prompt.empty()) writer.trusted("\n\n");
  writer.trusted(
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with "
      "function "
      "signatures within <tools></tools> XML tags:\n<tools>");
  for (const ToolSchema& tool : tools) {
    writer.trusted("\n");
    writer.plain(python_json(tool_schema_to_json(tool)), Author::kSystem);
  }
  writer.trusted(
      "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
      "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
      "<args-json-object>}\n</tool_call><|im_end|>\n");
}

// Everything between the generation prompt and the glue after <|im_end|> is what the model would have
// sampled.
void write_assistant(Writer& writer, const Message& message) {
  writer.trusted("<|im_start|>assistant\n");
  writer.boundary();
  if (!message.reasoning.empty()) {
    writer.trusted("<think>\n", Author::kAssistant);
    writer.plain(message.reasoning, Author::kAssistant);
    writer.trusted("\n</think>\n\n", Author::kAssistant);
  }
  writer.plain(message.content, Author::kAssistant);
  bool separate = !message.content.empty();
  for (const ToolCall& call : message.tool_calls) {
    if (separate) writer.plain("\n", Author::kAssistant);
    separate = true;
    std::string arguments =
        call.arguments.is_string() ? call.arguments.as_string() : python_json(call.arguments);
    writer.trusted("<tool_call>\n", Author::kAssistant);
    writer.plain(fmt::format("{{\"name\": \"{}\", \"arguments\": {}}}", call.name, arguments),
                 Author::kAssistant);
    writer.trusted("\n</tool_call>", Author::kAssistant);
  }
  writer.trusted("<|im_end|>", Author::kAssistant);
  writer.trusted("\n");
}

void write_messages(Writer& writer, std::span<const Message> messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    switch (message.role) {
      case Role::kSystem:
        write_turn(writer, "system", message.content, Author::kSystem);
        break;
      case Role::kUser:
        write_turn(writer, "user", message.content, Author::kUser);
        break;
      case Role::kAssistant:
        write_assistant(writer, message);
        break;
      case Role::kTool:
        if (i == 0 || messages[i - 1].role != Role::kTool) writer.trusted("<|im_start|>user");
        writer.trusted("\n<tool_response>\n");
        writer.plain(message.content, Author::kTool);
        writer.trusted("\n</tool_response>");
        if (i + 1 == messages.size() || messages[i + 1].role != Role::kTool) writer.trusted("<|im_end|>\n");
        break;
    }
  }
}

}  // namespace

const char* to_string(Author author) {
  switch (author) {
    case Author::kSystem:
      return "system";
    case Author::kUser:
      return "user";
    case Author::kAssistant:
      return "assistant";
    case Author::kTool:
      return "tool";
    case Author::kTemplate:
      return "template";
  }
  throw internal_error("A token has an author that is no member of Author.");
}

ChatMlRenderer::ChatMlRenderer(TokenizerPtr tokenizer, ChatMlOptions options)
    : tokenizer_(std::move(tokenizer)), options_(std::move(options)) {
  tokenizer_->require_token("<|im_start|>");
  turn_end_ = tokenizer_->require_token("<|im_end|>");
  stop_tokens_.push_back(turn_end_);
  if (std::optional<int32_t> text_end = tokenizer_->token_to_id("<|endoftext|>"))
    stop_tokens_.push_back(*text_end);
}

Result<RenderedTokens> ChatMlRenderer::render(std::span<const Message> messages,
                                              std::span<const ToolSchema> tools,
                                              bool add_generation_prompt) const {
  Writer writer(*tokenizer_);
  bool has_system = !messages.empty() && messages[0].role == Role::kSystem;
  std::string_view system_prompt = has_system ? messages[0].content : options_.default_system_prompt;
  if (options_.list_tools && !tools.empty()) {
    write_tools(writer, has_system, system_prompt, tools);
  } else if (has_system || !system_prompt.empty()) {
    write_turn(writer, "system", system_prompt, Author::kSystem);
  }
  write_messages(writer, messages.subspan(has_system ? 1 : 0));
  if (add_generation_prompt) writer.trusted("<|im_start|>assistant\n");
  return writer.take();
}

Result<Bridge> ChatMlRenderer::bridge(std::span<const int32_t> tokens,
                                      std::span<const Message> messages) const {
  if (tokens.empty())
    throw internal_error("A bridge was asked of no tokens; render the conversation instead.");
  Writer writer(*tokenizer_);
  bool after_glue = tokens.size() >= 2 && tokens[tokens.size() - 2] == turn_end_ &&
                    tokenizer_->token_bytes(tokens.back()) == "\n";
  if (!after_glue) writer.trusted(tokens.back() == turn_end_ ? "\n" : "<|im_end|>\n");
  write_messages(writer, messages);
  writer.trusted("<|im_start|>assistant\n");
  return Bridge(writer.take());
}

}  // namespace stoker
