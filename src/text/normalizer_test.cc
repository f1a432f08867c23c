#include "text/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/utf8.h"
#include "text/base64.h"
#include "text/precompiled_normalizer.h"
#include "text/testing/format_goldens.h"
#include "text/unicode_normal_form.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Normalizer& golden_normalizer(const std::string& name) {
  static std::map<std::string, std::unique_ptr<const Normalizer>> made;
  std::unique_ptr<const Normalizer>& normalizer = made[name];
  if (normalizer == nullptr) normalizer = read_normalizer(format_kind("normalizers", name));
  return *normalizer;
}

std::string normalized(const Normalizer& normalizer, std::string_view text) {
  AlignedText aligned;
  aligned.assign(text);
  normalizer.normalize(aligned);
  return aligned.text;
}

std::unique_ptr<const Normalizer> from_text(const char* json) {
  Json parsed = Json::parse(json);
  return read_normalizer({parsed, "normalizer", "t.json"});
}

void check_normalizer_rows(const std::vector<Json>& rows) {
  size_t different = 0;
  for (const Json& row : rows) {
    const Normalizer& normalizer = golden_normalizer(row.at("normalizer").as_string());
    const std::string& text = row.at("text").as_string();
    std::string expected = row.at("normalized").as_string();
    std::string got = normalized(normalizer, text);
    EXPECT_TRUE(!normalizer.keeps(text) || got == text) << row.dump();
    if (got != expected && ++different < 20) ADD_FAILURE() << row.dump() << "\ngives " << Json(got).dump();
  }
  EXPECT_EQ(different, 0u);
}

TEST(Normalizer, EqualsHuggingFace) { check_normalizer_rows(format_rows("normalizers", false)); }

TEST(Normalizer, EqualsHuggingFaceOnTheLargeSet) {
  std::vector<Json> rows = format_rows("normalizers", true);
  if (rows.empty()) GTEST_SKIP() << "src/text/goldens/make.sh --check makes the large set";
  check_normalizer_rows(rows);
}

TEST(Normalizer, OriginsNeverFallAndCoverWhatChanged) {
  RandomStream random({.run_seed = 21});
  for (const char* name : {"NFC", "NFKD", "Mixed", "Llama", "T5", "Nmt", "Strip", "Regex"}) {
    const Normalizer& normalizer = golden_normalizer(name);
    for (int round = 0; round < 200; ++round) {
      std::string text = random_bytes(random, 12) + "e\xCC\x81  \xEF\xAC\x81";
      AlignedText aligned;
      aligned.tracked = true;
      aligned.assign(text);
      normalizer.normalize(aligned);
      uint32_t last_begin = 0;
      uint32_t last_end = 0;
      for (size_t i = 0; i < aligned.text.size(); ++i) {
        EXPECT_LE(last_begin, aligned.begin_of(i));
        EXPECT_LE(last_end, aligned.end_of(i));
        EXPECT_LE(aligned.begin_of(i), aligned.end_of(i));
        last_begin = aligned.begin_of(i);
        last_end = aligned.end_of(i);
      }
      EXPECT_LE(last_end, text.size());
    }
  }
}

TEST(Normalizer, AComposedCharacterStandsForAllItsParts) {
  AlignedText aligned;
  aligned.tracked = true;
  aligned.assign("ae\xCC\x81z");
  make_unicode_normalizer(NormalForm::kNfc)->normalize(aligned);
  EXPECT_EQ(aligned.text, "a\xC3\xA9z");
  EXPECT_THAT(aligned.begins, ElementsAre(0, 1, 1, 4));
  EXPECT_THAT(aligned.ends, ElementsAre(1, 4, 4, 5));
}

TEST(Normalizer, CharactersThatOnlyChangePlacesStandOneForOne) {
  AlignedText aligned;
  aligned.tracked = true;
  aligned.assign("K\xCD\x83t\xCD\x85\xCC\x93");  // K U+0343 t U+0345 U+0313
  make_unicode_normalizer(NormalForm::kNfc)->normalize(aligned);
  EXPECT_EQ(aligned.text, "K\xCC\x93t\xCC\x93\xCD\x85");
  EXPECT_THAT(aligned.begins, ElementsAre(0, 1, 1, 3, 4, 4, 6, 6));
  EXPECT_THAT(aligned.ends, ElementsAre(1, 3, 3, 4, 6, 6, 8, 8));
}

TEST(Normalizer, BytesThatAreNoTextStayAndPartTheText) {
  EXPECT_EQ(to_normal_form("e\xFF\xCC\x81", NormalForm::kNfc), "e\xFF\xCC\x81");
  EXPECT_EQ(to_normal_form("\xC3\xA9\xC3", NormalForm::kNfd), "e\xCC\x81\xC3");
  EXPECT_EQ(normalized(golden_normalizer("Lowercase"),
                       "A\xC3"
                       "B\xED\xA0\x80"),
            "a\xC3"
            "b\xED\xA0\x80");
  EXPECT_EQ(normalized(golden_normalizer("T5"), "ab\xE3  \xFF "), "ab\xE3\xE2\x96\x81\xFF");
}

TEST(UnicodeNormalForm, EveryFormOfAFormIsItself) {
  RandomStream random({.run_seed = 22});
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t i = random.below(6); i > 0; --i) {
      append_utf8(text, random.below(2) == 0 ? static_cast<char32_t>(0x300 + random.below(0x70))
                                             : static_cast<char32_t>(random.below(0xD800)));
    }
    std::string nfc = to_normal_form(text, NormalForm::kNfc);
    std::string nfkd = to_normal_form(text, NormalForm::kNfkd);
    EXPECT_EQ(to_normal_form(nfc, NormalForm::kNfc), nfc);
    EXPECT_EQ(to_normal_form(to_normal_form(text, NormalForm::kNfd), NormalForm::kNfc), nfc);
    EXPECT_EQ(to_normal_form(nfkd, NormalForm::kNfkd), nfkd);
    EXPECT_EQ(to_normal_form(nfc, NormalForm::kNfkd), nfkd);
  }
}

TEST(UnicodeNormalForm, TakesLongRunsOfMarks) {
  std::string marks;
  for (int i = 0; i < 100000; ++i) marks += i % 2 == 0 ? "\xCC\x81" : "\xCC\xA3";
  std::string composed = to_normal_form("e" + marks, NormalForm::kNfc);
  // The marks below come first; one of them composes.
  EXPECT_TRUE(composed.starts_with("\xE1\xBA\xB9\xCC\xA3"));
  EXPECT_TRUE(composed.ends_with("\xCC\x81\xCC\x81"));
  EXPECT_EQ(composed.size(), marks.size() + 1);
}

TEST(PrecompiledNormalizer, TheKindOfMatchDecides) {
  std::string map = *decode_base64(format_kind("normalizers", "Precompiled").text("precompiled_charsmap"));
  std::string problem;
  auto grapheme = make_precompiled_normalizer(map, CharsmapMatch::kGrapheme, problem);
  auto longest = make_precompiled_normalizer(map, CharsmapMatch::kLongest, problem);
  // "A" becomes "a", and "A" with two dots one character.
  EXPECT_EQ(normalized(*grapheme, "A\xCC\x88!"), "a!");
  EXPECT_EQ(normalized(*longest, "A\xCC\x88!"), "\xC3\x84!");
}

TEST(PrecompiledNormalizer, DamagedMapsAreRefusedOrHarmless) {
  std::string map = *decode_base64(format_kind("normalizers", "Precompiled").text("precompiled_charsmap"));
  RandomStream random({.run_seed = 23});
  for (int round = 0; round < 500; ++round) {
    std::string damaged = map.substr(0, random.below(4) == 0 ? random.below(map.size()) : map.size());
    for (int edits = 0; edits < 20 && !damaged.empty(); ++edits) {
      damaged[random.below(damaged.size())] = static_cast<char>(random.below(256));
    }
    std::string problem;
    auto normalizer = make_precompiled_normalizer(damaged, CharsmapMatch::kLongest, problem);
    if (normalizer == nullptr) {
      EXPECT_FALSE(problem.empty());
    } else {
      normalized(*normalizer, random_bytes(random, 20) + "AB\xEF\xAC\x81");
    }
  }
}

TEST(Normalizer, RefusesWhatItDoesNotKnow) {
  auto refusal = [](const char* json) { return input_error_of([&] { from_text(json); }); };
  EXPECT_THAT(refusal(R"({"type": "BertNormalizer"})"), HasSubstr("'BertNormalizer'; Stoker supports NFC"));
  EXPECT_THAT(refusal(R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Odd"}]})"),
              HasSubstr("normalizer.normalizers[1] is 'Odd'"));
  EXPECT_THAT(refusal(R"({"type": "Replace", "pattern": {"Regex": "(a"}, "content": ""})"),
              HasSubstr("normalizer.pattern.Regex is no regular expression"));
  EXPECT_THAT(refusal(R"({"type": "Replace", "pattern": {"String": ""}, "content": ""})"),
              HasSubstr("is empty"));
  EXPECT_THAT(refusal(R"({"type": "Precompiled", "precompiled_charsmap": "A"})"), HasSubstr("no base64"));
  EXPECT_THAT(refusal(R"({"type": "Precompiled", "precompiled_charsmap": "/////w=="})"),
              HasSubstr("claims a trie of 4294967295 bytes"));
  EXPECT_EQ(from_text(R"({"type": "Sequence", "normalizers": []})"), nullptr);
}

TEST(Base64, ReadsWhatItWritesAndRefusesTheRest) {
  for (const char* bytes : {"", "f", "fo", "foo", "foob", "\xFF\xFE"}) {
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
  }
  EXPECT_EQ(encode_base64("fo"), "Zm8=");
  for (const char* text : {"Z", "Zm8", "Zm9=", "Zm 8", "Z===", "====", "Zm8=Zm8="}) {
    EXPECT_EQ(decode_base64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace stoker
