#include "text/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/regex_splitter.h"
#include "text/testing/tokenizers.h"
#include "text/tokenizer_part.h"

namespace stoker {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

// The words of `text` under a pre-tokenizer given as JSON; offsets must point to where a word comes from.
Words words(const std::string& json_text, std::string_view text, bool at_start = true) {
  Json json = Json::parse(json_text);
  PreTokenizer pretokenizer{TokenizerPart(json, "pre_tokenizer", "t")};
  SplitText split;
  split.assign(text, at_start, true);
  pretokenizer.apply(split);
  Words result;
  for (const TextRange& word : split.words) {
    EXPECT_LT(word.begin, word.end);
    result.emplace_back(split.word(word));
    if (split.is_rewritten) {
      EXPECT_LE(split.rewritten.end_of(word.end - 1), text.size());
    }
  }
  return result;
}

std::string split_step(const char* pattern, const char* behavior, const char* invert = "false") {
  return std::string(R"({"type": "Split", "pattern": )") + pattern + R"(, "behavior": ")" + behavior +
         R"(", "invert": )" + invert + "}";
}

// Expectations from Hugging Face's documentation of SplitDelimiterBehavior, "the-final--countdown" cut at
// '-'.
TEST(PreTokenizer, EveryBehaviorOfSplit) {
  const char* dash = R"({"String": "-"})";
  std::string_view text = "the-final--countdown";
  EXPECT_EQ(words(split_step(dash, "Removed"), text), (Words{"the", "final", "countdown"}));
  EXPECT_EQ(words(split_step(dash, "Isolated"), text), (Words{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(words(split_step(dash, "MergedWithPrevious"), text), (Words{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(words(split_step(dash, "MergedWithNext"), text), (Words{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(words(split_step(dash, "Contiguous"), text), (Words{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(words(split_step(dash, "Removed", "true"), text), (Words{"-", "-", "-"}));
  EXPECT_EQ(words(split_step(R"({"Regex": "[a-z]+"})", "Removed", "true"), text),
            (Words{"the", "final", "countdown"}));
}

TEST(PreTokenizer, TheSimpleSteps) {
  EXPECT_EQ(words(R"({"type": "Digits", "individual_digits": true})", "a12\u0663"),
            (Words{"a", "1", "2", "\u0663"}));
  EXPECT_EQ(words(R"({"type": "Digits"})", "a12b"), (Words{"a", "12", "b"}));
  EXPECT_EQ(words(R"({"type": "Whitespace"})", " a_1, \u00A0b!!"), (Words{"a_1", ",", "b", "!!"}));
  EXPECT_EQ(words(R"({"type": "WhitespaceSplit"})", " a,  b\n"), (Words{"a,", "b"}));
  EXPECT_EQ(words(R"({"type": "Punctuation"})", "a!? b"), (Words{"a", "!", "?", " b"}));
  EXPECT_EQ(words(R"({"type": "Punctuation", "behavior": "Contiguous"})", "a!?b"), (Words{"a", "!?", "b"}));
  EXPECT_EQ(words("null", "a b"), (Words{"a b"}));
  EXPECT_EQ(words("null", ""), (Words{}));
}

TEST(PreTokenizer, MetaspaceAndPrefixSpaceRewriteTheText) {
  std::string always = R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "always"})";
  std::string first = R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"})";
  std::string whole =
      R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "never", "split": false})";
  EXPECT_EQ(words(always, "a  b", false), (Words{"_a", "_", "_b"}));
  EXPECT_EQ(words(always, " a", false), (Words{"_a"}));
  EXPECT_EQ(words(first, "a b", true), (Words{"_a", "_b"}));
  EXPECT_EQ(words(first, "a b", false), (Words{"a", "_b"}));
  EXPECT_EQ(words(whole, "a b c"), (Words{"a_b_c"}));
  EXPECT_EQ(words(R"({"type": "ByteLevel", "add_prefix_space": true, "use_regex": true})", "a b"),
            (Words{" a", " b"}));
  EXPECT_EQ(
      words(R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, )" + always + "]}", "a b"),
      (Words{"_a", "_b"}));
}

TEST(PreTokenizer, RefusesWhatItCannotDoExactly) {
  auto refusal = [](const std::string& json) { return input_error_of([&] { words(json, "a"); }); };
  EXPECT_THAT(refusal(R"({"type": "Odd"})"), HasSubstr("pre_tokenizer is 'Odd'"));
  EXPECT_THAT(refusal(split_step(R"({"Regex": "("})", "Isolated")), HasSubstr("pre_tokenizer.pattern.Regex"));
  EXPECT_THAT(refusal(split_step(R"({"Regex": "[a&&b]"})", "Isolated")), HasSubstr("intersection"));
  EXPECT_THAT(refusal(split_step(R"({"String": "a"})", "Sideways")), HasSubstr("Sideways"));
  EXPECT_THAT(refusal(R"({"type": "Metaspace", "replacement": "ab"})"), HasSubstr("one character"));
  EXPECT_THAT(
      refusal(R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": false}, )"
              R"({"type": "Digits"}]})"),
      HasSubstr("after ByteLevel"));
  // No answer in reasonable time is no answer, and says so.
  EXPECT_THAT(input_error_of([] {
                words(split_step(R"({"Regex": "(?:a|a)+[bc]"})", "Isolated"), std::string(2000, 'a'));
              }),
              HasSubstr("cut the text"));
}

// Characters that old and new Unicode versions class alike, in texts that make every part of the patterns
// meet.
std::string pattern_text(RandomStream& random) {
  static const std::vector<std::string> pieces = {"a",
                                                  "Z",
                                                  "ab",
                                                  "Cd",
                                                  "'s",
                                                  "'S",
                                                  "'\u017F",
                                                  "'ll",
                                                  "'Re",
                                                  "'",
                                                  "1",
                                                  "23",
                                                  "4567",
                                                  " ",
                                                  "  ",
                                                  "\n",
                                                  "\r",
                                                  "\t",
                                                  "\r\n",
                                                  " \n ",
                                                  "!",
                                                  "?!",
                                                  "/",
                                                  "-",
                                                  "\"",
                                                  "_",
                                                  "\u00E9",
                                                  "\u00C9",
                                                  "e\u0301",
                                                  "\u0301",
                                                  "\u01C5",
                                                  "\u02B0",
                                                  "\u00AA",
                                                  "\u6B6A",
                                                  "\u30C6",
                                                  "\u0663",
                                                  "\u2167",
                                                  "\u00BD",
                                                  "\u00A0",
                                                  "\u3000",
                                                  "\u2028",
                                                  "\u0085",
                                                  "\U0001F600",
                                                  "\u200D",
                                                  "\u20AC",
                                                  "\x01",
                                                  "\u0915\u094D",
                                                  "\xFF",
                                                  "\xC3"};
  std::string text;
  for (size_t i = random.below(14) + 1; i > 0; --i) text += pieces[random.below(pieces.size())];
  return text;
}

class ScannerTest : public testing::TestWithParam<WordPattern> {};
INSTANTIATE_TEST_SUITE_P(All, ScannerTest,
                         testing::Values(WordPattern::kGpt2, WordPattern::kCl100k, WordPattern::kQwen2,
                                         WordPattern::kQwen35, WordPattern::kO200k, WordPattern::kTekken,
                                         WordPattern::kDeepSeek3, WordPattern::kThreeDigits,
                                         WordPattern::kDigit, WordPattern::kSpacesAtEnd));

TEST_P(ScannerTest, FindsWhatTheGeneralEngineFinds) {
  RegexSplitter splitter{std::string(pattern_regex(GetParam()))};
  ASSERT_EQ(known_pattern(pattern_regex(GetParam())), GetParam());
  RandomStream random({.run_seed = 11});
  auto show = [](std::string_view text, const std::vector<TextRange>& matches) {
    std::string shown;
    for (const TextRange& match : matches) {
      shown += "[" + std::string(text.substr(match.begin, match.end - match.begin)) + "]";
    }
    return shown;
  };
  // Few rounds of much text: making the engine anew costs more than matching.
  for (int round = 0; round < 60; ++round) {
    std::string text;
    for (int part = 0; part < 40; ++part) text += pattern_text(random);
    std::vector<TextRange> scanned;
    std::vector<TextRange> matched;
    splitter.find(text, scanned);
    splitter.find_by_engine(text, matched);
    ASSERT_EQ(show(text, scanned), show(text, matched)) << text;
  }
}

TEST_P(ScannerTest, AMegabyteIsDoneInLinearTime) {
  for (std::string unit : {"a", " ", "\n", "\u0301", "A", "\u00AA", "1", " \n", "!", "\xFF"}) {
    std::string text;
    while (text.size() < (1 << 20)) text += unit;
    for (const char* last : {"", "x"}) {
      std::vector<TextRange> matches;
      scan_words(GetParam(), text + last, matches);
      EXPECT_LE(matches.size(), text.size() + 1);
    }
  }
}

}  // namespace
}  // namespace stoker
