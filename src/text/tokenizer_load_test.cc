#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/testing/test_folder.h"
#include "text/base64.h"
#include "text/post_processor.h"
#include "text/sentencepiece_file.h"
#include "text/testing/format_goldens.h"
#include "text/testing/shared_data.h"
#include "text/tiktoken_file.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// As SentencePiece takes text: what is marked special stays text, user-defined pieces are found.
std::vector<int32_t> encode_as_sentencepiece(const Tokenizer& tokenizer, std::string_view text) {
  TextPiece piece{text, AddedTokens::kNonSpecial};
  std::vector<int32_t> ids;
  for (const EncodedToken& token : tokenizer.encode_pieces({&piece, 1})) ids.push_back(token.id);
  return ids;
}

std::filesystem::path sentencepiece_model(const std::string& name) {
  return text_goldens() / "sentencepiece" / (name + ".model");
}

void check_sentencepiece_rows(const std::vector<Json>& rows) {
  std::map<std::string, TokenizerPtr> tokenizers;
  size_t different = 0;
  for (const Json& row : rows) {
    const std::string& name = row.at("model").as_string();
    TokenizerPtr& tokenizer = tokenizers[name];
    if (tokenizer == nullptr) tokenizer = Tokenizer::load(sentencepiece_model(name));
    std::vector<int32_t> ids = encode_as_sentencepiece(*tokenizer, row.at("text").as_string());
    if (ids != to_ids(row.at("ids")) && ++different < 20) {
      ADD_FAILURE() << row.dump() << "\ngives " << testing::PrintToString(ids);
    }
  }
  EXPECT_EQ(different, 0u) << "of " << rows.size();
}

TEST(SentencePieceFile, EqualsSentencePiece) {
  check_sentencepiece_rows(format_rows("sentencepiece", false));
}

TEST(SentencePieceFile, EqualsSentencePieceOnTheLargeSet) {
  std::vector<Json> rows = format_rows("sentencepiece", true);
  if (rows.empty()) GTEST_SKIP() << "src/text/goldens/make.sh --check makes the large set";
  check_sentencepiece_rows(rows);
}

TEST(SentencePieceFile, PutsBosInFrontUnlessTheConfigSaysOtherwise) {
  std::string bytes = read_file(sentencepiece_model("llama"));
  TestFolder folder;
  folder.write("tokenizer.model", bytes);
  EXPECT_THAT(Tokenizer::load(folder.path())->post_processor().before, ElementsAre(1));
  EXPECT_THAT(Tokenizer::load(folder.path())->post_processor().after, IsEmpty());
  folder.write("tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": true})");
  EXPECT_THAT(Tokenizer::load(folder.path())->post_processor().before, IsEmpty());
  EXPECT_THAT(Tokenizer::load(folder.path())->post_processor().after, ElementsAre(2));
}

TEST(SentencePieceFile, WhatIsCutOffOrDamagedIsRefusedOrLoads) {
  RandomStream random({.run_seed = 41});
  for (const char* name : {"llama", "unigram"}) {
    std::string whole = read_file(sentencepiece_model(name));
    for (int round = 0; round < 60; ++round) {
      std::string bytes = whole.substr(0, round % 2 == 0 ? random.below(whole.size()) : whole.size());
      for (int edits = round % 4; edits > 0 && !bytes.empty(); --edits) {
        bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
      }
      try {
        Tokenizer::from_json(sentencepiece_json(bytes, nullptr, "m.model"), "m.model")->encode("the fox 1");
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInput);
        EXPECT_THAT(error.what(), HasSubstr("m.model"));
      }
    }
  }
}

TEST(SentencePieceFile, NamesWhatIsWrong) {
  auto refusal = [](std::string_view bytes) {
    return input_error_of([&] { sentencepiece_json(bytes, nullptr, "m.model"); });
  };
  EXPECT_THAT(refusal(std::string_view("\x0A\x05\x0A\x03", 4)),
              HasSubstr("cut off or damaged behind piece 0"));
  EXPECT_THAT(refusal(""), HasSubstr("holds no pieces"));
  EXPECT_THAT(refusal("\x0A\x05\x0A\x03"
                      "abc"),
              HasSubstr("no piece is for the unknown"));
  EXPECT_THAT(refusal("\x0A\x04\x0A\x00\x18\x02"), HasSubstr("damaged"));
  EXPECT_THAT(refusal(std::string_view("\x0A\x05\x0A\x01?\x18\x02\x0A\x05\x0A\x01?\x18\x01", 14)),
              HasSubstr("piece 1 ('?') occurs twice"));
  EXPECT_THAT(refusal(std::string_view("\x0A\x05\x0A\x01?\x18\x09", 7)),
              HasSubstr("piece 0 the unknown type 9"));
  EXPECT_THAT(refusal(std::string_view("\x0A\x05\x0A\x01?\x18\x02\x12\x02\x18\x03", 11)),
              HasSubstr("a model of kind 3"));
}

// A tiktoken file of all bytes and "ab", "abc".
std::string tiny_tiktoken() {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    text += encode_base64(std::string(1, static_cast<char>(byte))) + " " + std::to_string(byte) + "\n";
  }
  return text + encode_base64("ab") + " 256\n" + encode_base64("abc") + " 257\n";
}

TEST(TiktokenFile, PairsMergeByTheirRank) {
  auto load = [](const Json& config) {
    return Tokenizer::from_json(tiktoken_json(tiny_tiktoken(), TiktokenKind::kGpt2, config, "t"), "t");
  };
  TokenizerPtr tokenizer = load(nullptr);
  EXPECT_THAT(tokenizer->encode("abab abc\xFF"), ElementsAre(256, 256, 32, 257, 255));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("abab abc\xFF")), "abab abc\xFF");
  EXPECT_EQ(tokenizer->token_to_id("<|endoftext|>"), 50256);
  EXPECT_TRUE(tokenizer->is_special(50256));
  Json config =
      Json::parse(R"({"added_tokens_decoder": {"0": {"content": "!"}, "258": {"content": "<|end|>"}}})");
  EXPECT_THAT(load(config)->encode_with_special("ab<|end|>"), ElementsAre(256, 258));
  EXPECT_THAT(
      input_error_of([&] { load(Json::parse(R"({"added_tokens_decoder": {"x": {"content": "!"}}})")); }),
      HasSubstr("added_tokens_decoder['x']"));
}

TEST(TiktokenFile, NamesTheLineThatIsWrong) {
  auto refusal = [](const std::string& bytes) {
    return input_error_of([&] { tiktoken_json(bytes, std::nullopt, nullptr, "t.tiktoken"); });
  };
  EXPECT_THAT(refusal("YQ== 0\nYg==1\n"), HasSubstr("t.tiktoken: line 2 has no blank"));
  EXPECT_THAT(refusal("tet 0\n"), HasSubstr("line 1 does not start with base64"));
  EXPECT_THAT(refusal("YQ== 18446744073709551616\n"), HasSubstr("'18446744073709551616' where a rank"));
  EXPECT_THAT(refusal("YQ== 1000000\n"), HasSubstr("'1000000' where a rank"));
  EXPECT_THAT(refusal("YQ== 0\nYg== 0\n"), HasSubstr("line 2 has rank 0, which another line has too"));
  EXPECT_THAT(refusal("YQ== 0\nYQ== 1\n"), HasSubstr("line 2 repeats a token"));
  EXPECT_THAT(refusal("YQ== 0\nYg== 2\n"), HasSubstr("no line has rank 1"));
  EXPECT_THAT(refusal(""), HasSubstr("line 0"));
  EXPECT_THAT(refusal("YQ== 0\n"),
              HasSubstr("none of the known kinds (gpt2, cl100k, o200k, llama3, qwen) has 1 ranks"));
}

TEST(TiktokenFile, RefusesTheDamagedFilesOfMetasTests) {
  std::filesystem::path folder = shared_data() / "tokenizers" / "tiny";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "shared/data is not here";
  auto refusal = [&](const char* name) { return input_error_of([&] { Tokenizer::load(folder / name); }); };
  EXPECT_THAT(refusal("test_tiktoken_invalid_base64.model"), HasSubstr("line 1 does not start with base64"));
  EXPECT_THAT(refusal("test_tiktoken_invalid_rank.model"), HasSubstr("line 1 has '18446744073709551616'"));
  EXPECT_THAT(refusal("test_tiktoken_no_space.model"), HasSubstr("line 1 has no blank"));
}

TEST(TokenizerLoad, PicksByTheOrderOfFormatsAndByContent) {
  TestFolder folder;
  EXPECT_THAT(input_error_of([&] { Tokenizer::load(folder.path()); }),
              AllOf(HasSubstr("tokenizer.json does not exist"), HasSubstr("a .tiktoken file")));
  folder.write("b.tiktoken", "YQ==1\n");
  folder.write("a.tiktoken", "YQ==1\n");
  EXPECT_THAT(input_error_of([&] { Tokenizer::load(folder.path()); }), HasSubstr("a.tiktoken: line 1"));
  folder.write("tokenizer.model", "YQ==1\n");
  EXPECT_THAT(input_error_of([&] { Tokenizer::load(folder.path()); }), HasSubstr("tokenizer.model: line 1"));
  folder.write("tokenizer.model", read_file(sentencepiece_model("gemma")));
  EXPECT_TRUE(Tokenizer::load(folder.path())->token_to_id("<sym>").has_value());
  folder.write("tokenizer.json", read_file(text_goldens() / "small_tokenizer.json"));
  EXPECT_EQ(Tokenizer::load(folder.path())->encode("the fox"), small_tokenizer()->encode("the fox"));
  folder.write("other.name", read_file(text_goldens() / "small_tokenizer.json"));
  EXPECT_EQ(Tokenizer::load(folder / "other.name")->encode("the"), small_tokenizer()->encode("the"));
  folder.write("model.gguf", "GGUF\x03");
  EXPECT_THAT(input_error_of([&] { Tokenizer::load(folder / "model.gguf"); }), HasSubstr("is a GGUF file"));
}

}  // namespace
}  // namespace stoker
