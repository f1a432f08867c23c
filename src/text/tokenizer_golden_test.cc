#include <gtest/gtest.h>

#include "text/testing/shared_data.h"
#include "text/testing/tokenizers.h"
#include "text/tokenizer.h"

namespace stoker {
namespace {

std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text, AddedTokens added) {
  TextPiece piece{text, added};
  std::vector<int32_t> ids;
  size_t end = 0;
  for (const EncodedToken& token : tokenizer.encode_pieces({&piece, 1})) {
    ids.push_back(token.id);
    EXPECT_LE(token.begin, token.end);
    EXPECT_LE(token.begin, end);  // no byte is left out
    end = std::max(end, token.end);
  }
  EXPECT_EQ(end, text.size());
  return ids;
}

// One test a tokenizer: the large files take a second to load.
class PublicTokenizer : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, PublicTokenizer, testing::Values("llama3_1", "gemma3", "qwen3"),
                         [](const auto& info) { return info.param; });

TEST_P(PublicTokenizer, TOK_01_07_09_11_EqualsTheRecordedGoldens) {
  std::string name = GetParam();
  if (!std::filesystem::exists(shared_data() / "tokenizers" / name))
    GTEST_SKIP() << "shared/data is not here";
  TokenizerPtr tokenizer = shared_tokenizer(name);
  auto rows = [&](const char* kind) {
    return read_rows(shared_data() / "goldens" / (kind + name + ".jsonl"));
  };
  for (const Json& row : rows("encode_")) {
    const std::string& text = row.at("text").as_string();
    std::vector<int32_t> ids = to_ids(row.at("ids"));
    EXPECT_EQ(encode(*tokenizer, text, AddedTokens::kAll), ids) << text;
    EXPECT_EQ(tokenizer->decode(ids), row.at("decoded").as_string()) << text;
    EXPECT_EQ(tokenizer->encode_with_special(text), ids) << text;
  }
  for (const Json& row : rows("special_as_text_")) {
    const std::string& text = row.at("text").as_string();
    EXPECT_EQ(encode(*tokenizer, text, AddedTokens::kNonSpecial), to_ids(row.at("ids_text_only"))) << text;
    EXPECT_EQ(encode(*tokenizer, text, AddedTokens::kAll), to_ids(row.at("ids_special_parsed"))) << text;
  }
  // Bytes that are no UTF-8 come back, alone and cut out of a character.
  for (std::string text : {"\xE6\xAD", "\xAA", "a\xFF\xFE b", "\xED\xA0\x80", "caf\xC3"}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

}  // namespace
}  // namespace stoker
