#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/author.h"
#include "text/message.h"
#include "text/tokenizer.h"

namespace stoker {

// Tokens and, for each, who wrote it.
struct RenderedTokens {
  std::vector<int32_t> ids;
  std::vector<Author> authors;  // same length

  bool operator==(const RenderedTokens&) const = default;
};

// The template does not extend the tokens so far: it would write earlier messages in another way from here
// on.
struct HistoryRewritten {
  size_t message = 0;  // index among the messages so far of the first one that changes
  std::string reason;

  bool operator==(const HistoryRewritten&) const = default;
};

using Bridge = std::variant<RenderedTokens, HistoryRewritten>;

// Messages to tokens. Only the renderer places control tokens; text of users, tools and models stays text.
// Immutable; any number of threads may use one. A conversation that the template cannot express is a Failure
// (environment.template) with the reason.
class Renderer {
 public:
  virtual ~Renderer() = default;

  // The whole conversation. `add_generation_prompt` ends it where the assistant is to go on. An assistant's
  // tokens (content, calls, its end-of-turn token) have Author::kAssistant, whatever stands around them.
  virtual Result<RenderedTokens> render(std::span<const Message> messages, std::span<const ToolSchema> tools,
                                        bool add_generation_prompt) const = 0;

  // What follows `tokens`, a prompt that this renderer made and what was sampled after it, when `messages`
  // are added and the assistant is to go on: the suffix to append, from the glue after the sampled turn to
  // the generation prompt. Nothing before it is touched or tokenised again.
  virtual Result<Bridge> bridge(std::span<const int32_t> tokens, std::span<const Message> messages) const = 0;

  // Tokens that end an assistant's turn.
  virtual std::span<const int32_t> stop_tokens() const = 0;

  virtual const Tokenizer& tokenizer() const = 0;
};

}  // namespace stoker
