#include "model/gguf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/test_folder.h"
#include "model/testing/gguf_builder.h"
#include "model/testing/models.h"
#include "text/byte_map.h"
#include "text/post_processor.h"
#include "text/testing/vocabulary_goldens.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(GgufTokenizer, Gpt2AndLlama2EqualLlamaCpp) {
  std::filesystem::path folder = shared_data() / "vocab-goldens";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "shared/data is not here";
  for (const char* name : {"gpt-2", "llama-spm"}) {
    TokenizerPtr tokenizer = load_tokenizer(folder / (std::string("ggml-vocab-") + name + ".gguf"));
    check_vocabulary_goldens(*tokenizer, name);
    EXPECT_EQ(tokenizer->post_processor().before.empty(), std::string(name) == "gpt-2");
  }
}

// Byte-level: the 256 bytes, "ab", and a control token.
GgufBuilder byte_level_gguf(const char* pre) {
  GgufBuilder builder;
  builder.add_string("tokenizer.ggml.model", "gpt2");
  builder.add_string("tokenizer.ggml.pre", pre);
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(bytes_to_name(std::string(1, static_cast<char>(byte))));
  tokens.insert(tokens.end(), {"ab", "<|im_end|>"});
  builder.add_strings("tokenizer.ggml.tokens", tokens);
  std::vector<int32_t> types(tokens.size(), 1);
  types.back() = 3;
  builder.add_numbers("tokenizer.ggml.token_type", GgufValueType::kInt32, types);
  builder.add_strings("tokenizer.ggml.merges", {"a b"});
  builder.add_uint("tokenizer.ggml.eos_token_id", 257);
  return builder;
}

std::string rendered(const ChatTemplate& chat_template, const std::vector<ToolSchema>& tools = {}) {
  const std::vector<Message> messages = {{.role = Role::kUser, .content = "hi"}};
  return chat_template.render({.messages = chat_messages(messages), .tools = chat_tools(tools)})
      ->text.bytes();
}

TEST(GgufTokenizer, ReadsTheChatTemplate) {
  TestFolder folder;
  GgufBuilder builder = byte_level_gguf("qwen2");
  const std::filesystem::path path = folder.write("model.gguf", builder.build());
  EXPECT_FALSE(load_chat_template(path).has_value());

  builder.add_string("tokenizer.chat_template", "{{ eos_token }}{{ messages[0].content }}{{ bos_token }}");
  folder.write("model.gguf", builder.build());
  EXPECT_EQ(rendered(*load_chat_template(path)), "<|im_end|>hi");
  EXPECT_EQ(rendered(*load_chat_template(folder.path())), "<|im_end|>hi");
  EXPECT_EQ(gguf_tokenizer_config(GgufFile(path)).dump(),
            R"({"eos_token":"<|im_end|>","chat_template":)"
            R"("{{ eos_token }}{{ messages[0].content }}{{ bos_token }}"})");
  // A folder with a tokenizer of its own is a model directory.
  folder.write("tokenizer.json", "{}");
  EXPECT_FALSE(load_chat_template(folder.path()).has_value());
}

TEST(GgufTokenizer, ReadsNamedChatTemplates) {
  TestFolder folder;
  GgufBuilder builder = byte_level_gguf("qwen2");
  builder.add_string("tokenizer.chat_template", "plain");
  builder.add_strings("tokenizer.chat_templates", {"tool_use"});
  builder.add_string("tokenizer.chat_template.tool_use", "with tools");
  const std::optional<ChatTemplate> chat_template =
      load_chat_template(folder.write("model.gguf", builder.build()));
  EXPECT_EQ(rendered(*chat_template), "plain");
  EXPECT_EQ(rendered(*chat_template, {{"f", "d", Json::object({{"type", "object"}})}}), "with tools");
}

TEST(GgufTokenizer, RefusesChatTemplatesThatAreNoTextOrTooMany) {
  TestFolder folder;
  const auto refusal = [&](const std::string& source, size_t names) {
    GgufBuilder builder = byte_level_gguf("qwen2");
    builder.add_string("tokenizer.chat_template", source);
    builder.add_strings("tokenizer.chat_templates", std::vector<std::string>(names, "x"));
    return input_error_of([&] { load_chat_template(folder.write("model.gguf", builder.build())); });
  };
  EXPECT_THAT(refusal("caf\xE9", 1), AllOf(HasSubstr("model.gguf"), HasSubstr("UTF-8")));
  EXPECT_THAT(refusal(std::string((size_t{1} << 20) + 1, 'a'), 1), HasSubstr("1048576"));
  EXPECT_THAT(refusal("a", 65), HasSubstr("names 65 templates"));
}

TEST(GgufTokenizer, NamesTheFileOfABrokenChatTemplate) {
  TestFolder folder;
  GgufBuilder builder = byte_level_gguf("qwen2");
  builder.add_string("tokenizer.chat_template", "{{ messages | nosuch }}");
  EXPECT_THAT(input_error_of([&] { load_chat_template(folder.write("model.gguf", builder.build())); }),
              AllOf(HasSubstr("model.gguf"), HasSubstr("nosuch")));
}

TEST(GgufTokenizer, ReadsByteLevelVocabularies) {
  TestFolder folder;
  GgufBuilder builder = byte_level_gguf("qwen2");
  builder.add_bool("tokenizer.ggml.add_eos_token", true);
  folder.write("model.gguf", builder.build());
  TokenizerPtr tokenizer = load_tokenizer(folder.path());
  EXPECT_THAT(tokenizer->encode_with_special("abb<|im_end|>"), ElementsAre(256, 'b', 257));
  EXPECT_THAT(tokenizer->post_processor().after, ElementsAre(257));
  EXPECT_THAT(tokenizer->post_processor().before, IsEmpty());
  // Qwen's makers compose first.
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("e\xCC\x81")), "\xC3\xA9");
}

// As converters write Gemma's: the token for the unknown is a control token that a key names.
TEST(GgufTokenizer, FindsTheUnknownByItsKey) {
  const auto file = [](std::optional<uint32_t> unknown) {
    GgufBuilder builder;
    builder.add_string("tokenizer.ggml.model", "llama");
    builder.add_strings("tokenizer.ggml.tokens", {"<bos>", "<unk>", "\xE2\x96\x81", "a"});
    builder.add_numbers<float>("tokenizer.ggml.scores", GgufValueType::kFloat32, {0, 0, -1, -2});
    builder.add_numbers<int32_t>("tokenizer.ggml.token_type", GgufValueType::kInt32, {3, 3, 1, 1});
    if (unknown) builder.add_uint("tokenizer.ggml.unknown_token_id", *unknown);
    return builder;
  };
  TestFolder folder;
  TokenizerPtr tokenizer = load_tokenizer(folder.write("llama.gguf", file(1).build()));
  EXPECT_THAT(tokenizer->encode("a z"), ElementsAre(2, 3, 2, 1));
  EXPECT_THAT(input_error_of([&] { load_tokenizer(folder.write("m.gguf", file(std::nullopt).build())); }),
              HasSubstr("no piece is for the unknown"));
}

TEST(GgufTokenizer, ReadsUnigramVocabularies) {
  GgufBuilder builder;
  builder.add_string("tokenizer.ggml.model", "t5");
  builder.add_strings("tokenizer.ggml.tokens", {"<pad>", "</s>", "<unk>", "\xE2\x96\x81", "a",
                                                "\xE2\x96\x81"
                                                "ab"});
  builder.add_numbers<float>("tokenizer.ggml.scores", GgufValueType::kFloat32, {0, 0, 0, -1, -2, -2.5});
  builder.add_numbers<int32_t>("tokenizer.ggml.token_type", GgufValueType::kInt32, {3, 3, 2, 1, 1, 1});
  builder.add_uint("tokenizer.ggml.eos_token_id", 1);
  TestFolder folder;
  TokenizerPtr tokenizer = load_tokenizer(folder.write("t5.gguf", builder.build()));
  EXPECT_THAT(tokenizer->encode("  ab  a"), ElementsAre(5, 3, 4));
  EXPECT_THAT(tokenizer->encode("z"), ElementsAre(3, 2));
  EXPECT_THAT(tokenizer->post_processor().after, ElementsAre(1));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("ab a")), "ab a");
}

TEST(GgufTokenizer, NamesWhatIsWrong) {
  auto refusal = [](const GgufBuilder& builder) {
    TestFolder folder;
    std::string path = folder.write("m.gguf", builder.build());
    return input_error_of([&] { load_tokenizer(path); });
  };
  EXPECT_THAT(refusal(GgufBuilder()), HasSubstr("no 'tokenizer.ggml.model'"));
  EXPECT_THAT(refusal(byte_level_gguf("odd")), HasSubstr("cuts text by 'odd'"));
  GgufBuilder odd;
  odd.add_string("tokenizer.ggml.model", "rwkv");
  odd.add_strings("tokenizer.ggml.tokens", {"a"});
  EXPECT_THAT(refusal(odd), HasSubstr("of the model 'rwkv'; Stoker supports llama, t5 and gpt2"));
  GgufBuilder short_scores;
  short_scores.add_string("tokenizer.ggml.model", "llama");
  short_scores.add_strings("tokenizer.ggml.tokens", {"a", "b"});
  short_scores.add_numbers<float>("tokenizer.ggml.scores", GgufValueType::kFloat32, {0});
  EXPECT_THAT(refusal(short_scores), HasSubstr("2 tokens and 1 scores"));
  GgufBuilder outside = byte_level_gguf("qwen2");
  outside.add_uint("tokenizer.ggml.bos_token_id", 5000);
  EXPECT_THAT(refusal(outside), HasSubstr("bos_token_id 5000, but 258 tokens"));
}

}  // namespace
}  // namespace stoker
