#include "text/added_tokens.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
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

// What the tree finds, found by comparing with every token at every place.
std::string show_plainly(const std::vector<AddedToken>& tokens, std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    size_t longest = 0;
    for (const AddedToken& token : tokens) {
      if (text.substr(at).starts_with(token.content)) longest = std::max(longest, token.content.size());
    }
    result += longest == 0 ? std::string(1, text[at]) : "[" + std::string(text.substr(at, longest)) + "]";
    at += std::max<size_t>(longest, 1);
  }
  return result;
}

TEST(AddedTokens, TheTreeAgreesWithPlainSearch) {
  RandomStream random({.run_seed = 7});
  const auto text_of = [&](uint64_t longest) {
    std::string text;
    for (uint64_t size = 1 + random.below(longest); text.size() < size;) {
      text += static_cast<char>('a' + random.below(3));
    }
    return text;
  };
  size_t found = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<AddedToken> tokens;
    for (int32_t id = 0; id < 6; ++id)
      tokens.push_back({.id = id, .content = text_of(9), .normalized = false});
    const AddedTokenFinder finder(tokens);
    const std::string text = text_of(60);
    const std::string shown = show_plainly(tokens, text);
    EXPECT_EQ(show(finder, text), shown);
    found += static_cast<size_t>(std::count(shown.begin(), shown.end(), '['));
  }
  EXPECT_GT(found, 1000u);
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
