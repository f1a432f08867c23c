#include <gtest/gtest.h>

#include "base/utf8.h"
#include "text/template_renderer.h"
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

// A template that begins with BOS gives exactly one.
void check_one_bos(TokenizerPtr tokenizer, const char* file, SpecialTokenNames tokens,
                   const std::vector<int32_t>& expected) {
  ChatTemplate chat_template = ChatTemplate::load(shared_data() / "chat-templates" / file);
  chat_template.set_special_tokens(std::move(tokens));
  TemplateRenderer renderer(std::move(tokenizer), std::move(chat_template));
  Message message{.role = Role::kUser, .content = "Hi"};
  std::vector<int32_t> ids = renderer.render({&message, 1}, {}, true)->ids;
  ASSERT_GE(ids.size(), expected.size());
  EXPECT_EQ((std::vector<int32_t>{ids.begin(), ids.begin() + static_cast<int>(expected.size())}), expected);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), expected[0]), 1);
}

// One test a tokenizer: the large files take a second to load.
class PublicTokenizer : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, PublicTokenizer, testing::Values("llama3_1", "gemma3", "qwen3"),
                         [](const auto& info) { return info.param; });

TEST_P(PublicTokenizer, TOK_01_07_09_11_TPL_07_EqualsTheRecordedGoldens) {
  std::string name = GetParam();
  if (!std::filesystem::exists(shared_data() / "tokenizers" / name))
    GTEST_SKIP() << "shared/data is not here";
  TokenizerPtr tokenizer = shared_tokenizer(name);
  size_t compared = 0;
  auto rows = [&](const char* kind) {
    std::vector<Json> found = read_rows(shared_data() / "goldens" / (kind + name + ".jsonl"));
    compared += found.size();
    return found;
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
  RecordProperty("goldens", std::to_string(compared));
  if (name == "qwen3") {  // the exact ids of case TOK-07
    using Ids = std::vector<int32_t>;
    EXPECT_EQ(tokenizer->encode("->"), Ids{405});
    EXPECT_EQ(tokenizer->encode("(x):\n"), (Ids{2075, 982}));
    EXPECT_EQ(tokenizer->encode("1234567890"), (Ids{16, 17, 18, 19, 20, 21, 22, 23, 24, 15}));
    EXPECT_EQ(tokenizer->encode("\n\n\n"), Ids{1406});
  }
  if (name == "llama3_1")
    check_one_bos(tokenizer, "meta-llama-Llama-3.1-8B-Instruct.jinja",
                  {{"bos_token", "<|begin_of_text|>"}, {"eos_token", "<|eot_id|>"}}, {128000, 128006});
  if (name == "gemma3")
    check_one_bos(tokenizer, "google-gemma-3-chat_template.json",
                  {{"bos_token", "<bos>"}, {"eos_token", "<end_of_turn>"}}, {2, 105, 2364, 107});
  // Bytes that are no UTF-8 come back, alone and cut out of a character.
  for (std::string text : {"\xE6\xAD", "\xAA", "a\xFF\xFE b", "\xED\xA0\x80", "caf\xC3"}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

// The start and end of the characters that [begin, end) touches: the reference counts in characters.
std::vector<size_t> whole_characters(std::string_view text, size_t begin, size_t end) {
  auto inside = [&](size_t at) {
    return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80;
  };
  while (inside(begin)) --begin;
  while (inside(end)) ++end;
  return {begin, end};
}

std::string from_hexadecimal(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

bool agrees(const Tokenizer& tokenizer, const Json& row) {
  std::vector<int32_t> ids = to_ids(row.at("ids"));
  if (const Json* bytes = row.find("bytes")) {
    const std::string& replaced = row.at("replaced").as_string();
    std::string text = from_hexadecimal(bytes->as_string());
    if (tokenizer.encode_with_special(replaced) != ids || to_valid_utf8(text) != replaced) return false;
    // Where the reference's form comes back, the bytes themselves do.
    return tokenizer.decode(ids) != replaced || tokenizer.decode(tokenizer.encode_with_special(text)) == text;
  }
  const std::string& text = row.at("text").as_string();
  const Json* as_text = row.find("ids_special_as_text");
  TextPiece piece{text, AddedTokens::kNonSpecial};
  std::vector<int32_t> others;
  for (const EncodedToken& token : tokenizer.encode_pieces({&piece, 1})) others.push_back(token.id);
  if (tokenizer.encode_with_special(text) != ids || others != (as_text ? to_ids(*as_text) : ids))
    return false;
  const Json* offsets = row.find("offsets");
  if (offsets == nullptr) return true;
  piece.added_tokens = AddedTokens::kAll;
  size_t index = 0;
  for (const EncodedToken& token : tokenizer.encode_pieces({&piece, 1})) {
    const Json::Array& range = offsets->as_array()[index++].as_array();
    std::vector<size_t> found = whole_characters(text, token.begin, token.end);
    if (found[0] != range[0].as_uint() || found[1] != range[1].as_uint()) return false;
  }
  return true;
}

// src/text/goldens/make.sh --check writes many hard strings and the reference's answers into the build
// folder.
TEST(TokenizerOracle, EqualsHuggingFaceOnHardStrings) {
  std::filesystem::path folder = std::filesystem::path(STOKER_SOURCE_DIR) / "build" / "goldens" / "oracle";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "src/text/goldens/make.sh --check makes the strings";
  size_t compared = 0;
  size_t conversations = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    TokenizerPtr tokenizer = Tokenizer::load(entry.path());
    size_t wrong = 0;
    for_each_line(std::filesystem::path(entry.path()).replace_extension(".jsonl"),
                  [&](std::string_view line, size_t, bool) {
                    const Json row = Json::parse(line);
                    ++(row.find("conversation") == nullptr ? compared : conversations);
                    if (!agrees(*tokenizer, row) && ++wrong < 4) ADD_FAILURE() << line;
                    return true;
                  });
    EXPECT_EQ(wrong, 0u) << entry.path();
  }
  RecordProperty("strings", std::to_string(compared));
  RecordProperty("conversations", std::to_string(conversations));
  printf("%zu strings and %zu conversations compared\n", compared, conversations);
}

}  // namespace
}  // namespace stoker
