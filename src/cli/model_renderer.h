#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "text/chat_template.h"
#include "text/make_renderer.h"

namespace stoker {

// What `chosen`, a setting that `what` names ("model.chat_template"), puts in place of the model's own chat
// template: that of a Jinja file, or the built-in one for "chatml"; nothing for an empty one. Throws
// Error(kInput) naming the setting.
std::optional<ChatTemplate> chosen_chat_template(const std::string& chosen, const std::string& what);

// The renderer of the model at `model`, a model directory or a GGUF file: with the chosen chat template, else
// its own, else ChatML.
std::unique_ptr<const Renderer> make_model_renderer(const std::filesystem::path& model,
                                                    std::optional<ChatTemplate> chosen,
                                                    TokenizerPtr tokenizer, const RendererOptions& options);

}  // namespace stoker
