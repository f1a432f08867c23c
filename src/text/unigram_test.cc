#include "text/unigram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>

#include "base/utf8.h"
#include "text/testing/format_goldens.h"

namespace stoker {
namespace {

using testing::HasSubstr;

// The goldens' variant of the trained tokenizer.
TokenizerPtr unigram_tokenizer(const std::string& name) {
  static std::map<std::string, TokenizerPtr> made;
  if (TokenizerPtr& tokenizer = made[name]) return tokenizer;
  Json json = Json::parse(read_file(text_goldens() / "small_unigram.json"), "small_unigram.json");
  if (name == "byte_fallback") {
    Json model = json.at("model");
    Json vocabulary = model.at("vocab");
    for (int byte = 0; byte < 256; ++byte) {
      vocabulary.as_array().push_back(Json::array({fmt::format("<0x{:02X}>", byte), -30.0 - byte}));
    }
    model.set("vocab", vocabulary);
    model.set("byte_fallback", true);
    json.set("model", model);
    json.set("decoder", format_kind("decoders", "Llama").json());
  }
  return made[name] = Tokenizer::from_json(json, "small_unigram.json");
}

void check_unigram_rows(const std::vector<Json>& rows) {
  size_t different = 0;
  for (const Json& row : rows) {
    std::vector<int32_t> ids =
        unigram_tokenizer(row.at("tokenizer").as_string())->encode(row.at("text").as_string());
    if (ids != to_ids(row.at("ids")) && ++different < 20) {
      ADD_FAILURE() << row.dump() << "\ngives " << testing::PrintToString(ids);
    }
  }
  EXPECT_EQ(different, 0u);
}

TEST(Unigram, EqualsHuggingFace) { check_unigram_rows(format_rows("unigram", false)); }

TEST(Unigram, EqualsHuggingFaceOnTheLargeSet) {
  std::vector<Json> rows = format_rows("unigram", true);
  if (rows.empty()) GTEST_SKIP() << "src/text/goldens/make.sh --check makes the large set";
  check_unigram_rows(rows);
}

// The best sum of scores over every way to cut `word`, by trying all.
double best_score(const std::vector<UnigramModel::Token>& tokens, double unknown, std::string_view word) {
  if (word.empty()) return 0;
  double best = -1e300;
  bool has_single = false;
  size_t character = utf8_step(word).size;
  for (const UnigramModel::Token& token : tokens) {
    if (!token.matches || token.text.empty() || !word.starts_with(token.text)) continue;
    has_single = has_single || token.text.size() == character;
    best = std::max(best, token.score + best_score(tokens, unknown, word.substr(token.text.size())));
  }
  if (!has_single) best = std::max(best, unknown + best_score(tokens, unknown, word.substr(character)));
  return best;
}

TEST(Unigram, NoOtherWayToCutScoresMore) {
  RandomStream random({.run_seed = 31});
  for (int round = 0; round < 300; ++round) {
    std::vector<UnigramModel::Token> tokens = {{"<unk>", -1.0, false}};
    std::map<std::string, size_t> known;
    for (size_t i = 1 + random.below(8); i > 0; --i) {
      std::string text;
      for (size_t k = 1 + random.below(3); k > 0; --k) text += random.below(3) == 0 ? "b" : "a";
      if (known.emplace(text, tokens.size()).second) {
        tokens.push_back({text, -0.25 * static_cast<double>(1 + random.below(16))});
      }
    }
    double lowest = 0;
    for (const auto& token : tokens) lowest = std::min(lowest, token.score);
    UnigramModel model(tokens, 0, std::nullopt);
    std::string word;
    for (size_t k = 1 + random.below(9); k > 0; --k) word += random.below(3) == 0 ? "b" : "a";
    std::vector<TokenPiece> pieces;
    model.encode(word, *model.make_scratch(), pieces);
    double score = 0;
    size_t size = 0;
    for (const TokenPiece& piece : pieces) {
      // An unknown piece is one letter of "a" and "b" after the other.
      score += piece.id == 0 ? (lowest - 10.0) * piece.size : tokens[piece.id].score;
      size += piece.size;
    }
    EXPECT_EQ(size, word.size());
    EXPECT_EQ(score, best_score(tokens, lowest - 10.0, word)) << word;
  }
}

TEST(Unigram, NamesOfControlTokensAndBytesAreText) {
  TokenizerPtr tokenizer = unigram_tokenizer("byte_fallback");
  for (const char* text : {"<s>", "a</s>b", "<unk>", "<0x41>"}) {
    std::vector<int32_t> ids = tokenizer->encode(text);
    EXPECT_GT(ids.size(), 3u) << text;
    EXPECT_EQ(tokenizer->decode(ids), text);
  }
  EXPECT_EQ(tokenizer->encode_with_special("</s>").size(), 1u);
}

TEST(Unigram, WithByteTokensNothingIsLost) {
  std::vector<UnigramModel::Token> tokens = {
      {"<unk>", 0.0, false}, {"a", -1.0}, {"ab", -1.5}, {"\xC3\xA9", -2.0}};
  std::array<int32_t, 256> bytes{};
  for (int byte = 0; byte < 256; ++byte) {
    bytes[byte] = static_cast<int32_t>(tokens.size());
    tokens.push_back({std::string(1, static_cast<char>(byte)), -9.0, false});
  }
  UnigramModel model(tokens, 0, bytes);
  auto scratch = model.make_scratch();
  RandomStream random({.run_seed = 32});
  for (int round = 0; round < 500; ++round) {
    std::string text = random_bytes(random, 12) + "ab";
    std::vector<TokenPiece> pieces;
    model.encode(text, *scratch, pieces);
    std::string joined;
    for (const TokenPiece& piece : pieces) {
      EXPECT_EQ(tokens[piece.id].text.size(), piece.size);
      joined += tokens[piece.id].text;
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(Unigram, TakesAMegabyteOfOneLetter) {
  TokenizerPtr tokenizer = unigram_tokenizer("plain");
  std::string text(1 << 20, 'e');
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(Unigram, RefusesBrokenFiles) {
  auto refusal = [](const char* model) {
    Json json = Json::parse(read_file(text_goldens() / "small_unigram.json"), "small_unigram.json");
    json.set("model", Json::parse(model));
    return input_error_of([&] { Tokenizer::from_json(json, "u.json"); });
  };
  EXPECT_THAT(refusal(R"({"type": "Unigram", "unk_id": 0, "vocab": []})"), HasSubstr("model.vocab is empty"));
  EXPECT_THAT(refusal(R"({"type": "Unigram", "unk_id": 1, "vocab": [["a", 0.0]]})"),
              HasSubstr("model.unk_id is 1, no id"));
  EXPECT_THAT(refusal(R"({"type": "Unigram", "unk_id": null, "vocab": [["a", 0.0]]})"),
              HasSubstr("text would be lost"));
  EXPECT_THAT(refusal(R"({"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0], ["a", 1.0]]})"),
              HasSubstr("model.vocab[1] names a token that occurs before"));
  EXPECT_THAT(refusal(R"({"type": "Unigram", "unk_id": 0, "vocab": [["a"]]})"),
              HasSubstr("model.vocab[0] is no pair"));
  EXPECT_THAT(refusal(R"({"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": [["a", 0.0]]})"),
              HasSubstr("no '<0x00>'"));
}

}  // namespace
}  // namespace stoker
