#include "cli/model_renderer.h"

#include <fmt/core.h>

#include <system_error>

#include "base/error.h"
#include "model/gguf_tokenizer.h"
#include "text/tokenizer_builder.h"

namespace stoker {

namespace fs = std::filesystem;

std::optional<ChatTemplate> chosen_chat_template(const std::string& chosen, const std::string& what) {
  if (chosen.empty()) return std::nullopt;
  if (chosen == "chatml") return ChatTemplate::from_source(std::string(chatml_template()));
  std::error_code code;
  if (!fs::is_regular_file(chosen, code)) {
    throw input_error(
        fmt::format("{} is \"{}\", which is no file; name a Jinja file, or \"chatml\".", what, chosen));
  }
  ChatTemplate loaded = ChatTemplate::load(chosen);
  // The models that a run writes get it as a Jinja file, which holds one.
  if (loaded.source(false) != loaded.source(true)) {
    throw input_error(
        fmt::format("{} is {}, which has a template of its own for tools; name a Jinja file, which "
                    "has one for both.",
                    what, chosen));
  }
  return loaded;
}

std::unique_ptr<const Renderer> make_model_renderer(const fs::path& model, std::optional<ChatTemplate> chosen,
                                                    TokenizerPtr tokenizer, const RendererOptions& options) {
  if (!chosen) {
    return make_renderer(load_chat_template(model), std::move(tokenizer), options, model.string());
  }
  chosen->set_special_tokens(load_special_tokens_of_model(model));
  return make_renderer(std::move(chosen), std::move(tokenizer), options, "the chosen chat template");
}

}  // namespace stoker
