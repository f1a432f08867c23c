#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/renderer.h"

namespace stoker {

struct ChatMlOptions {
  // System message of conversations that bring none; empty: none is written.
  std::string default_system_prompt;
  // Writes the tools' schemas into the system turn, as Qwen does. False leaves them out: for models that
  // learn their tools by training and would pay for the text in every episode.
  bool list_tools = true;
};

// ChatML in the form of Qwen's tool templates:
//
//   <|im_start|>user\nWhat is 1+2?<|im_end|>\n<|im_start|>assistant\n                          prompt
//   <tool_call>\n{"name": "calculator", "arguments": {...}}\n</tool_call><|im_end|>            sampled
//   \n<|im_start|>user\n<tool_response>\n3\n</tool_response><|im_end|>\n<|im_start|>assistant\n  bridge
//
// Tool results in a row share one user turn. Reasoning is kept in every turn, as <think>\n...\n</think>\n\n
// before the content. The template never rewrites history, so a bridge is always a suffix. A turn that was
// cut before
// <|im_end|> gets it as glue; the newline after it is glue too (shared case TPL-03).
class ChatMlRenderer final : public Renderer {
 public:
  // Throws Error(kInput) when the tokenizer lacks <|im_start|> or <|im_end|>.
  explicit ChatMlRenderer(TokenizerPtr tokenizer, ChatMlOptions options = {});

  Result<RenderedTokens> render(std::span<const Message> messages, std::span<const ToolSchema> tools,
                                bool add_generation_prompt) const override;
  Result<Bridge> bridge(std::span<const int32_t> tokens, std::span<const Message> messages) const override;
  std::span<const int32_t> stop_tokens() const override { return stop_tokens_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }

 private:
  TokenizerPtr tokenizer_;
  ChatMlOptions options_;
  int32_t turn_end_;                  // <|im_end|>
  std::vector<int32_t> stop_tokens_;  // and <|endoftext|> where the tokenizer has it
};

}  // namespace stoker
