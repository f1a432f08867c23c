#include "text/make_renderer.h"

#include "base/error.h"
#include "text/chatml_renderer.h"
#include "text/template_renderer.h"
#include "text/tokenizer_builder.h"

namespace stoker {

std::unique_ptr<const Renderer> make_renderer(const std::filesystem::path& model_directory,
                                              TokenizerPtr tokenizer, const RendererOptions& options) {
  ChatMlOptions chatml{.default_system_prompt = options.default_system_prompt,
                       .list_tools = options.list_tools};
  if (!ChatTemplate::is_in(model_directory))
    return std::make_unique<ChatMlRenderer>(std::move(tokenizer), std::move(chatml));
  ChatTemplate chat_template = ChatTemplate::load(model_directory);
  if (chat_template.source(false) == chatml_template() && chat_template.source(true) == chatml_template())
    return std::make_unique<ChatMlRenderer>(std::move(tokenizer), std::move(chatml));
  try {
    return std::make_unique<TemplateRenderer>(
        std::move(tokenizer), std::move(chat_template),
        TemplateRendererOptions{.default_system_prompt = options.default_system_prompt,
                                .list_tools = options.list_tools,
                                .keeps_blanks = true});
  } catch (const Error& error) {
    throw Error(error.kind(), model_directory.string() + ": " + error.what());
  }
}

}  // namespace stoker
