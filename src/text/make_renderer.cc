#include "text/make_renderer.h"

#include "base/error.h"
#include "text/chatml_renderer.h"
#include "text/template_renderer.h"
#include "text/tokenizer_builder.h"

namespace stoker {

std::unique_ptr<const Renderer> make_renderer(std::optional<ChatTemplate> chat_template,
                                              TokenizerPtr tokenizer, const RendererOptions& options,
                                              const std::string& what) {
  if (!chat_template ||
      (chat_template->source(false) == chatml_template() && chat_template->source(true) == chatml_template()))
    return std::make_unique<ChatMlRenderer>(
        std::move(tokenizer), ChatMlOptions{.default_system_prompt = options.default_system_prompt,
                                            .list_tools = options.list_tools});
  try {
    return std::make_unique<TemplateRenderer>(
        std::move(tokenizer), std::move(*chat_template),
        TemplateRendererOptions{.default_system_prompt = options.default_system_prompt,
                                .list_tools = options.list_tools,
                                .keeps_blanks = true});
  } catch (const Error& error) {
    throw Error(error.kind(), what + ": " + error.what());
  }
}

}  // namespace stoker
