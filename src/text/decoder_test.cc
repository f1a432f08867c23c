#include "text/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/testing/format_goldens.h"

namespace stoker {
namespace {

using testing::HasSubstr;

// A tokenizer with just these tokens, in this order, and the decoder.
TokenizerPtr tokenizer_of(const std::vector<std::string>& names, const Json& decoder) {
  Json vocabulary = Json::array({Json::array({"<unk>", 0.0})});
  for (const std::string& name : names) vocabulary.as_array().push_back(Json::array({name, -1.0}));
  Json model = Json::object({{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocabulary}});
  return Tokenizer::from_json(Json::object({{"decoder", decoder}, {"model", model}}), "t.json");
}

void check_decoder_rows(const std::vector<Json>& rows) {
  for (const Json& row : rows) {
    std::vector<std::string> names;
    std::vector<int32_t> ids;
    for (const Json& token : row.at("tokens").as_array()) {
      auto known = std::find(names.begin(), names.end(), token.as_string());
      ids.push_back(static_cast<int32_t>(known - names.begin()) + 1);
      if (known == names.end()) names.push_back(token.as_string());
    }
    TokenizerPtr tokenizer =
        tokenizer_of(names, format_kind("decoders", row.at("decoder").as_string()).json());
    EXPECT_EQ(to_valid_utf8(tokenizer->decode(ids)), row.at("text").as_string()) << row.dump();
    Detokenizer detokenizer(tokenizer);
    std::string joined;
    for (int32_t id : ids) joined += detokenizer.push(id);
    EXPECT_EQ(to_valid_utf8(joined + detokenizer.finish()), row.at("text").as_string()) << row.dump();
  }
}

TEST(Decoder, EqualsHuggingFace) { check_decoder_rows(format_rows("decoders", false)); }

TEST(Decoder, EqualsHuggingFaceOnTheLargeSet) {
  std::vector<Json> rows = format_rows("decoders", true);
  if (rows.empty()) GTEST_SKIP() << "src/text/goldens/make.sh --check makes the large set";
  check_decoder_rows(rows);
}

TEST(Decoder, ABrokenRunOfByteTokensStaysBytes) {
  Json decoder = format_kind("decoders", "Llama").json();
  TokenizerPtr tokenizer = tokenizer_of({"<0xE4>", "<0xB8>", "\xE2\x96\x81x"}, decoder);
  std::vector<int32_t> ids = {3, 1, 2, 3};
  EXPECT_EQ(tokenizer->decode(ids), "x\xE4\xB8 x");
}

TEST(Decoder, AnAnswerThatGoesOnKeepsItsFirstBlank) {
  TokenizerPtr tokenizer = tokenizer_of({"\xE2\x96\x81the"}, format_kind("decoders", "Llama").json());
  Detokenizer start(tokenizer);
  Detokenizer goes_on(tokenizer, true, TextPosition::kContinues);
  EXPECT_EQ(start.push(1), "the");
  EXPECT_EQ(start.push(1), " the");
  EXPECT_EQ(goes_on.push(1), " the");
  EXPECT_EQ(start.finish(), "");
  EXPECT_EQ(start.push(1), "the");
}

TEST(Decoder, RefusesWhatNeedsMoreThanOneTokenAtATime) {
  auto refusal = [](const char* json) {
    return input_error_of([&] { tokenizer_of({"a"}, Json::parse(json)); });
  };
  EXPECT_THAT(refusal(R"({"type": "WordPiece", "prefix": "##"})"), HasSubstr("decoder is 'WordPiece'"));
  EXPECT_THAT(refusal(R"({"type": "CTC"})"), HasSubstr("decoder is 'CTC'"));
  EXPECT_THAT(refusal(R"({"type": "Strip", "content": " ", "start": 0, "stop": 1})"),
              HasSubstr("decoder.stop takes characters off the end"));
  EXPECT_THAT(refusal(R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}]})"),
              HasSubstr("decoder.decoders[1] is 'ByteFallback'; Stoker supports Strip after Fuse"));
  EXPECT_THAT(refusal(R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "sometimes"})"),
              HasSubstr("none of always, first and never"));
  EXPECT_THAT(refusal("null"), HasSubstr("decoder is 'null'"));
}

}  // namespace
}  // namespace stoker
