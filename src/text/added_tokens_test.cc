#include "text/added_tokens.h"

#include <gtest/gtest.h>

#include "text/testing/tokenizers.h"

namespace stoker {
namespace {

// Both passes over text that no normalizer changes.
std::vector<TextSegment> segments_of(const AddedTokenFinder& finder, std::string_view text,
                                     const std::vector<TrustRange>& ranges) {
  std::vector<TextSegment> raw;
  std::vector<TextSegment> result;
  if (!finder.has(AddedTokenFinder::Pass::kRaw)) {
    finder.split(AddedTokenFinder::Pass::kNormalized, text, ranges, result);
    return result;
  }
  finder.split(AddedTokenFinder::Pass::kRaw, text, ranges, raw);
  for (const TextSegment& segment : raw) {
    if (segment.token != nullptr) {
      result.push_back(segment);
      continue;
    }
    std::vector<TextSegment> inner;
    TrustRange range{0, segment.end - segment.begin, ranges.front().added_tokens};
    finder.split(AddedTokenFinder::Pass::kNormalized, text.substr(segment.begin, segment.end - segment.begin),
                 {&range, 1}, inner);
    for (const TextSegment& part : inner) {
      result.push_back({part.token, segment.begin + part.begin, segment.begin + part.end});
    }
  }
  return result;
}

// "[token]" for added tokens, the text between as it is.
std::string show(const AddedTokenFinder& finder, std::string_view text,
                 AddedTokens which = AddedTokens::kAll) {
  std::string result;
  size_t end = 0;
  for (const TextSegment& segment : segments_of(finder, text, {{0, text.size(), which}})) {
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
  std::vector<TextSegment> segments = segments_of(finder, text, ranges);
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].token, nullptr);
  EXPECT_EQ(segments[1].begin, 7u);
}

}  // namespace
}  // namespace stoker
