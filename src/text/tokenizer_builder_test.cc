#include "text/tokenizer_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/testing/test_folder.h"
#include "text/testing/tokenizers.h"

namespace stoker {
namespace {

using testing::HasSubstr;

TEST(TokenizerBuilder, LowIdsAreTheCharactersOfText) {
  TokenizerPtr tokenizer = demo_tokenizer();
  EXPECT_EQ(tokenizer->encode("\n !"), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(tokenizer->encode("~"), std::vector<int32_t>{95});
  EXPECT_EQ(tokenizer->encode(std::string_view("\0", 1)), std::vector<int32_t>{96});
  EXPECT_EQ(*tokenizer->token_to_id("<|endoftext|>"), 256);
  EXPECT_EQ(tokenizer->vocabulary_size(), 256 + 7 + static_cast<int32_t>(builder_default_words().size()));
}

TEST(TokenizerBuilder, WordsAreOneTokenAndDigitsSingle) {
  TokenizerPtr tokenizer = demo_tokenizer();
  for (const std::string& word : builder_default_words())
    EXPECT_EQ(tokenizer->encode(word).size(), 1u) << word;
  EXPECT_EQ(tokenizer->encode("0123456789").size(), 10u);
  EXPECT_EQ(tokenizer->encode("The answer is 42.").size(), 7u);
}

TEST(TokenizerBuilder, QwensTagsAreControlThoughNotSpecial) {
  TokenizerPtr tokenizer = demo_tokenizer();
  for (const std::string& name : builder_control_tokens()) {
    int32_t id = tokenizer->require_token(name);
    EXPECT_TRUE(tokenizer->is_control(id));
    EXPECT_EQ(tokenizer->is_special(id), name.starts_with("<|"));
  }
}

TEST(TokenizerBuilder, RefusesWordsThatBreakItsPromises) {
  for (const char* word : {"", "a", "v2", "<x>"}) {
    EXPECT_THAT(input_error_of([&] { build_tokenizer_json({word}); }), HasSubstr(Json(word).dump()));
  }
  EXPECT_THAT(input_error_of([&] { build_tokenizer_json({"ab", "ab"}); }), HasSubstr("twice"));
}

// The reference's answers in goldens/ were made with these very files. After a wanted change run this test
// with STOKER_WRITE_GOLDENS=1, then goldens/make.sh.
TEST(TokenizerBuilder, WritesTheFilesThatWereCheckedAgainstTheReference) {
  const TestFolder test_folder;
  const std::filesystem::path& folder = test_folder.path();
  write_tokenizer(folder, builder_default_words());
  if (std::getenv("STOKER_WRITE_GOLDENS") != nullptr) {
    write_tokenizer(text_goldens() / "demo_tokenizer", builder_default_words());
  }
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}) {
    EXPECT_EQ(read_file(folder / name), read_file(text_goldens() / "demo_tokenizer" / name))
        << name
        << " changed; write it again into src/text/goldens/demo_tokenizer and run src/text/goldens/make.sh";
  }
  EXPECT_EQ(Tokenizer::load(folder)->vocabulary_size(), demo_tokenizer()->vocabulary_size());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace stoker
