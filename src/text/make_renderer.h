#pragma once

#include <memory>
#include <optional>
#include <string>

#include "text/chat_template.h"
#include "text/renderer.h"

namespace stoker {

struct RendererOptions {
  std::string default_system_prompt;  // of conversations that bring none; empty: what the template does then
  bool list_tools = true;             // write the tools' schemas
};

// The renderer of a chat template, or ChatMlRenderer where that template is the one that write_tokenizer
// writes, or there is none. Sampled turns stay as they were sampled, whatever blanks the template would trim.
// Throws Error(kInput) naming `what` when the template cannot be used.
std::unique_ptr<const Renderer> make_renderer(std::optional<ChatTemplate> chat_template,
                                              TokenizerPtr tokenizer, const RendererOptions& options,
                                              const std::string& what);

}  // namespace stoker
