#include "text/tokenizer_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "text/byte_map.h"

namespace stoker {
namespace {

constexpr size_t kSpecialTokens = 3;  // of builder_control_tokens(), at its front

// ChatMlRenderer in transformers' Jinja: the same text for the same messages.
constexpr const char* kChatTemplate =
    R"({%- set first = 1 if messages and messages[0].role == 'system' else 0 %}
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if first %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>" }}
    {%- for tool in tools %}
        {{- '\n' + tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n" }}
{%- elif first %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages[first:] %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\n' }}
        {%- if message.reasoning_content %}
            {{- '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}
        {%- endif %}
        {{- content }}
        {%- for tool_call in message.tool_calls or [] %}
            {%- set call = tool_call.function if tool_call.function else tool_call %}
            {{- '\n' if content or not loop.first else '' }}
            {{- '<tool_call>\n{"name": "' + call.name + '", "arguments": ' }}
            {{- call.arguments if call.arguments is string else call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user' if loop.first or loop.previtem.role != 'tool' else '' }}
        {{- '\n<tool_response>\n' + content + '\n</tool_response>' }}
        {{- '<|im_end|>\n' if loop.last or loop.nextitem.role != 'tool' else '' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{{- '<|im_start|>assistant\n' if add_generation_prompt else '' }})";

// All bytes, newline and printable ASCII first, so that the text of a small model has the low ids.
std::vector<uint8_t> byte_order() {
  std::vector<uint8_t> order = {'\n'};
  for (int byte = 0x20; byte <= 0x7E; ++byte) order.push_back(static_cast<uint8_t>(byte));
  for (int byte = 0; byte < 256; ++byte) {
    if (byte != '\n' && (byte < 0x20 || byte > 0x7E)) order.push_back(static_cast<uint8_t>(byte));
  }
  return order;
}

void check_word(const std::string& word) {
  auto bad = [&](const char* why) {
    return input_error(fmt::format("The word {} of the tokenizer {}; remove it.", Json(word).dump(), why));
  };
  if (word.size() < 2) throw bad("is no longer than a byte, which has a token already");
  if (std::any_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    throw bad("contains a digit, and digits must stay single");
  }
  if (word.front() == '<' && word.back() == '>') throw bad("looks like a control token");
}

Json added_token(int32_t id, const std::string& content, bool special) {
  return Json::object({{"id", id},
                       {"content", content},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", special}});
}

Json byte_level() {
  return Json::object(
      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}});
}

}  // namespace

std::string_view chatml_template() { return kChatTemplate; }

const std::vector<std::string>& builder_control_tokens() {
  static const std::vector<std::string> tokens = {"<|endoftext|>",   "<|im_start|>", "<|im_end|>",
                                                  "<tool_call>",     "</tool_call>", "<tool_response>",
                                                  "</tool_response>"};
  return tokens;
}

const std::vector<std::string>& builder_default_words() {
  static const std::vector<std::string> words = {
      "user",       "assistant", "system", "tool",   "name",     "arguments", "calculator",
      "expression", "error",     "{\"",    "\": \"", "\", \"",   "\": {\"",   "\"}}",
      "The",        " answer",   " is",    "What",   "How",      " much",     "Compute",
      "Calculate",  "Please",    " work",  " out",   "division", " by zero",
  };
  return words;
}

Json build_tokenizer_json(const std::vector<std::string>& words) {
  Json vocabulary = Json::object();
  int32_t id = 0;
  for (uint8_t byte : byte_order()) {
    std::string bytes(1, static_cast<char>(byte));
    vocabulary.as_object().emplace_back(bytes_to_name(bytes), id++);
  }
  Json added = Json::array();
  for (const std::string& token : builder_control_tokens()) {
    bool special = added.as_array().size() < kSpecialTokens;
    added.as_array().push_back(added_token(id++, token, special));
  }
  std::set<std::string> known;
  for (const std::string& word : words) {
    check_word(word);
    if (!known.insert(word).second) {
      throw input_error(
          fmt::format("The word {} of the tokenizer occurs twice; remove one.", Json(word).dump()));
    }
    added.as_array().push_back(added_token(id++, word, false));
  }
  return Json::object({{"version", "1.0"},
                       {"truncation", Json()},
                       {"padding", Json()},
                       {"added_tokens", std::move(added)},
                       {"normalizer", Json()},
                       {"pre_tokenizer", byte_level()},
                       {"post_processor", Json()},
                       {"decoder", byte_level()},
                       {"model", Json::object({{"type", "BPE"},
                                               {"dropout", Json()},
                                               {"unk_token", Json()},
                                               {"continuing_subword_prefix", Json()},
                                               {"end_of_word_suffix", Json()},
                                               {"fuse_unk", false},
                                               {"byte_fallback", false},
                                               {"ignore_merges", false},
                                               {"vocab", std::move(vocabulary)},
                                               {"merges", Json::array()}})}});
}

void write_tokenizer(const std::filesystem::path& folder, const std::vector<std::string>& words) {
  const std::string& padding = builder_control_tokens()[0];
  const std::string& turn_end = builder_control_tokens()[2];
  Json config = Json::object({{"tokenizer_class", "PreTrainedTokenizerFast"},
                              {"add_prefix_space", false},
                              {"clean_up_tokenization_spaces", false},
                              {"bos_token", Json()},
                              {"eos_token", turn_end},
                              {"pad_token", padding},
                              {"unk_token", Json()},
                              {"chat_template", kChatTemplate}});
  Json special = Json::object({{"eos_token", turn_end}, {"pad_token", padding}});
  write_file_atomic(folder / "tokenizer.json", build_tokenizer_json(words).dump_pretty() + "\n");
  write_file_atomic(folder / "tokenizer_config.json", config.dump_pretty() + "\n");
  write_file_atomic(folder / "special_tokens_map.json", special.dump_pretty() + "\n");
}

}  // namespace stoker
