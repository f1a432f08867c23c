#include "text/word_scanner.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/testing/tokenizers.h"

namespace stoker {
namespace {

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> result;
  std::vector<TextRange> matches;
  scan_words(WordPattern::kGpt2, text, matches);
  for (const TextRange& match : matches)
    result.emplace_back(text.substr(match.begin, match.end - match.begin));
  return result;
}

using Words = std::vector<std::string>;

TEST(WordScanner, FollowsGpt2sPattern) {
  EXPECT_EQ(words("I'll say it's   2nd!?\n"),
            (Words{"I", "'ll", " say", " it", "'s", "  ", " 2", "nd", "!?", "\n"}));
  EXPECT_EQ(words("a  "), (Words{"a", "  "}));
  EXPECT_EQ(words("a \n b"), (Words{"a", " \n", " b"}));
  EXPECT_EQ(words("a\n\nb"), (Words{"a", "\n", "\n", "b"}));
  EXPECT_EQ(words("a\xC2\xA0\xC2\xA0"
                  "b"),
            (Words{"a", "\xC2\xA0", "\xC2\xA0", "b"}));
  EXPECT_EQ(words("'S 're'x"), (Words{"'", "S", " '", "re", "'", "x"}));
  EXPECT_EQ(words("é١٢Ⅷ歪"), (Words{"é", "١٢Ⅷ", "歪"}));
}

TEST(WordScanner, BytesThatAreNoUtf8AreOtherCharacters) {
  EXPECT_EQ(words("a\xFF\xFE!b"), (Words{"a", "\xFF\xFE!", "b"}));
  EXPECT_EQ(words(" \xE6\xAD"), (Words{" \xE6\xAD"}));
}

TEST(WordScanner, WordsTileAnyText) {
  RandomStream random({.run_seed = 3});
  for (int round = 0; round < 2000; ++round) {
    std::string text = random_bytes(random, 30);
    std::string joined;
    for (const std::string& word : words(text)) {
      ASSERT_FALSE(word.empty());
      joined += word;
    }
    EXPECT_EQ(joined, text);
  }
}

}  // namespace
}  // namespace stoker
