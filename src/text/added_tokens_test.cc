#include "text/added_tokens.h"

#include <gtest/gtest.h>

#include "text/testing/tokenizers.h"

namespace stoker {
namespace {

// "[token]" for added tokens, the text between as it is.
std::string show(const AddedTokenFinder& finder, std::string_view text,
                 AddedTokens which = AddedTokens::kAll) {
  std::string result;
  std::vector<TrustRange> ranges;
  if (!text.empty()) ranges.push_back({0, text.size(), which});
  size_t end = 0;
  for (const TextSegment& segment : finder.split(text, ranges)) {
    EXPECT_EQ(segment.begin, end);
    end = segment.end;
    std::string part(text.substr(segment.begin, segment.end - segment.begin));
    result += segment.token == nullptr ? part : "[" + part + "]";
  }
  EXPECT_EQ(end, text.size());
  return result;
}

TEST(AddedTokens, TheLeftmostLongestMatchWins) {
  AddedTokenFinder finder({{1, "ab", false}, {2, "abcd", false}, {3, "bcde", false}, {4, "cd", false}});
  EXPECT_EQ(show(finder, "abcde"), "[abcd]e");
  EXPECT_EQ(show(finder, "abcxbcde"), "[ab]cx[bcde]");
  EXPECT_EQ(show(finder, "xcdcd"), "x[cd][cd]");
  EXPECT_EQ(show(finder, ""), "");
  EXPECT_EQ(show(AddedTokenFinder(), "abc"), "abc");
}

TEST(AddedTokens, SpecialOnesAndTagsAreControl) {
  AddedTokenFinder finder(
      {{1, "<|end|>", true}, {2, "<tool>", false}, {3, "tool", false}, {4, "< x >", false}});
  EXPECT_EQ(show(finder, "a<|end|><tool>tool< x >", AddedTokens::kAll), "a[<|end|>][<tool>][tool][< x >]");
  EXPECT_EQ(show(finder, "a<|end|><tool>tool< x >", AddedTokens::kNonSpecial),
            "a<|end|>[<tool>][tool][< x >]");
  EXPECT_EQ(show(finder, "a<|end|><tool>tool< x >", AddedTokens::kPlain), "a<|end|><tool>[tool][< x >]");
}

TEST(AddedTokens, SingleWordsStandBetweenOtherCharacters) {
  AddedToken token{1, "cat", false};
  token.single_word = true;
  AddedTokenFinder finder({token});
  EXPECT_EQ(show(finder, "cat"), "[cat]");
  EXPECT_EQ(show(finder, "a cat, scat cats cat_ écat cat!"), "a [cat], scat cats cat_ écat [cat]!");
}

TEST(AddedTokens, StripTakesTheWhiteSpaceAround) {
  AddedToken left{1, "<l>", true};
  left.lstrip = true;
  AddedToken right{2, "<r>", true};
  right.rstrip = true;
  AddedTokenFinder finder({left, right});
  EXPECT_EQ(show(finder, "a \n\xC2\xA0<l> b"), "a[ \n\xC2\xA0<l>] b");
  EXPECT_EQ(show(finder, "a <r> \t b"), "a [<r> \t ]b");
  EXPECT_EQ(show(finder, "<r>  <l>"), "[<r>  ][<l>]");
  EXPECT_EQ(show(finder, "  <l><l>  <r>  "), "[  <l>][<l>]  [<r>  ]");
}

TEST(AddedTokens, NormalizedOnesAreSearchedForInTheRest) {
  AddedToken late{1, "abc", false};
  AddedToken early{2, "bc", false};
  early.normalized = false;
  AddedTokenFinder finder({late, early});
  EXPECT_EQ(show(finder, "abc"), "a[bc]");
}

TEST(AddedTokens, ATokenLiesWithinOnePiece) {
  AddedTokenFinder finder({{1, "<|end|>", true}});
  std::string text = "<|end|><|end|>";
  std::vector<TrustRange> ranges = {
      {0, 3, AddedTokens::kAll}, {3, 7, AddedTokens::kAll}, {7, 14, AddedTokens::kAll}};
  std::vector<TextSegment> segments = finder.split(text, ranges);
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].token, nullptr);
  EXPECT_EQ(segments[1].begin, 7u);
}

}  // namespace
}  // namespace stoker
