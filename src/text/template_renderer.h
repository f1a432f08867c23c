#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/renderer.h"
#include "text/template_traits.h"

namespace stoker {

// Bytes [begin, end) of a template's text as tokens, each of the author of its first byte. Only trusted text
// becomes control tokens.
RenderedTokens encode_marked(const Tokenizer& tokenizer, const jinja::MarkedText& text, size_t begin,
                             size_t end);

struct TemplateRendererOptions {
  // System message of conversations that bring none; empty: what the template does then.
  std::string default_system_prompt;
  // Gives the tools' schemas to the template.
  bool list_tools = true;
  // Variables of the template beyond the conversation: {"enable_thinking": false}.
  Json variables;
  // What strftime_now tells: a prompt must not change with the day on which a run is resumed.
  jinja::CivilTime now;
  // A sampled turn stays as it was sampled where the template would trim its blanks. False: such a turn is a
  // history that the template rewrites.
  bool keeps_blanks = false;
};

// Messages to tokens through a model's own chat template.
//
// A bridge renders only the new messages, after a stand-in of two short ones, so that its cost does not
// depend on the conversation. That this gives what the whole render would is found out when the renderer is
// made: see TemplateTraits. Where a template rewrites earlier messages only in some conversations (thinking
// is dropped once the user speaks again), the tokens so far are searched for what makes the difference, as
// far back as it can stand: bridges before this one have told of the rest.
class TemplateRenderer final : public Renderer {
 public:
  // Throws Error(kInput) when the template cannot express a user's message and an answer, or has no token
  // that ends a turn.
  TemplateRenderer(TokenizerPtr tokenizer, ChatTemplate chat_template, TemplateRendererOptions options = {});

  Result<RenderedTokens> render(std::span<const Message> messages, std::span<const ToolSchema> tools,
                                bool add_generation_prompt) const override;
  Result<Bridge> bridge(std::span<const int32_t> tokens, std::span<const Message> messages) const override;
  std::span<const int32_t> stop_tokens() const override { return stop_tokens_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }

  const TemplateTraits& traits() const { return traits_; }
  // The tokens of a render of this template, whoever made it; an assistant's turn is the assistant's from
  // behind the generation prompt to the token that ends it. `is_assistant`: of each message.
  RenderedTokens to_tokens(const jinja::Rendered& rendered, const std::vector<bool>& is_assistant) const;

 private:
  // Token sequences to look for in a conversation.
  struct Openings {
    std::vector<int32_t> system, user, assistant, tool, next_tool;
    std::vector<int32_t> default_start, default_start_with_tools;
    std::vector<int32_t> generation_prompt;
    std::vector<int32_t> thought_end;
  };

  void find_stops();
  void find_openings();
  bool ends_turn(int32_t id) const;
  std::vector<Message> with_default_system(std::span<const Message> messages) const;
  // The conversation that stands for the one before `added`, and the byte at which what follows its turn
  // begins in `rendered`.
  Result<jinja::Rendered> render_after_stand_in(const std::vector<Message>& added, size_t& begin) const;
  std::optional<HistoryRewritten> rewriting(std::span<const int32_t> tokens,
                                            const std::vector<Message>& added) const;
  // The last assistant's turn without its end: places of its first token and behind its last; the size twice
  // where none begins.
  std::pair<size_t, size_t> last_turn(std::span<const int32_t> tokens) const;
  std::optional<HistoryRewritten> trimming(std::span<const int32_t> tokens) const;
  std::optional<HistoryRewritten> dropped_words(std::span<const int32_t> tokens) const;
  std::optional<HistoryRewritten> dropped_thought(std::span<const int32_t> tokens, bool by_user) const;
  // Where the last message of a user begins; 0 where none is found.
  size_t last_user(std::span<const int32_t> tokens) const;
  // Messages whose opening stands before the position.
  size_t messages_before(std::span<const int32_t> tokens, size_t position) const;

  TokenizerPtr tokenizer_;
  ChatTemplate template_;
  TemplateRendererOptions options_;
  jinja::Variables variables_;
  TemplateTraits traits_;
  Openings openings_;
  std::vector<int32_t> stop_tokens_;
  std::vector<int32_t>
      turn_ends_;  // those of stop_tokens_ that the template writes; the first one after words
  std::vector<int32_t> after_turn_;  // what it writes after them before anything else: a newline
};

}  // namespace stoker
