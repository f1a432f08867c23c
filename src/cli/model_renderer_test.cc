#include "cli/model_renderer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/test_folder.h"
#include "text/testing/tokenizers.h"
#include "text/tokenizer_builder.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ModelRenderer, ChoosesAFileTheBuiltInTemplateOrNone) {
  TestFolder folder;
  EXPECT_FALSE(chosen_chat_template("", "model.chat_template").has_value());
  EXPECT_EQ(chosen_chat_template("chatml", "model.chat_template")->source(true), chatml_template());
  const std::string path = folder.write("mine.jinja", "{{ messages[0].content }}");
  EXPECT_EQ(chosen_chat_template(path, "model.chat_template")->source(false), "{{ messages[0].content }}");
}

TEST(ModelRenderer, NamesTheSettingThatIsWrong) {
  TestFolder folder;
  EXPECT_THAT(input_error_of([] { chosen_chat_template("chatlm", "--chat-template"); }),
              AllOf(HasSubstr("--chat-template"), HasSubstr("\"chatlm\""), HasSubstr("chatml")));
  EXPECT_THAT(input_error_of([&] { chosen_chat_template(folder.path(), "--chat-template"); }),
              HasSubstr("is no file"));
}

TEST(ModelRenderer, RefusesATemplateThatHasAnotherForTools) {
  TestFolder folder;
  const auto named = [&](const char* other) {
    return folder.write("t.json",
                        std::string(R"({"chat_template": [{"name": "default", "template": "a"}, )") +
                            R"({"name": ")" + other + R"(", "template": "b"}]})");
  };
  EXPECT_THAT(input_error_of([&] { chosen_chat_template(named("tool_use"), "--chat-template"); }),
              HasSubstr("of its own for tools"));
  EXPECT_EQ(chosen_chat_template(named("rag"), "--chat-template")->source(true), "a");
}

// The chosen template knows the model's special tokens, and wins over the model's own.
TEST(ModelRenderer, RendersTheChosenTemplateWithTheModelsTokens) {
  TestFolder folder;
  write_tokenizer(folder.path(), {});
  const std::string path =
      folder.write("mine.jinja",
                   "{% for m in messages %}{{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor %}"
                   "{% if add_generation_prompt %}assistant:{% endif %}");
  const TokenizerPtr tokenizer = Tokenizer::load(folder.path());
  const auto text = [&](std::optional<ChatTemplate> chosen) {
    const auto renderer = make_model_renderer(folder.path(), std::move(chosen), tokenizer, {});
    return tokenizer->decode(
        renderer->render(std::vector<Message>{{.role = Role::kUser, .content = "hi"}}, {}, true)->ids);
  };
  EXPECT_EQ(text(chosen_chat_template(path, "")), "user:hi<|im_end|>assistant:");
  EXPECT_EQ(text(std::nullopt), "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace stoker
