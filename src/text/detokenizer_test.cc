#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "text/testing/tokenizers.h"

namespace stoker {
namespace {

// Ids of single bytes.
std::vector<int32_t> byte_ids(const Tokenizer& tokenizer, std::string_view bytes) {
  std::vector<int32_t> ids;
  for (char byte : bytes) {
    for (int32_t id : tokenizer.encode(std::string_view(&byte, 1))) ids.push_back(id);
  }
  return ids;
}

std::vector<std::string> deltas(const TokenizerPtr& tokenizer, const std::vector<int32_t>& ids) {
  Detokenizer detokenizer(tokenizer);
  std::vector<std::string> result;
  for (int32_t id : ids) result.push_back(detokenizer.push(id));
  result.push_back(detokenizer.finish());
  return result;
}

using Deltas = std::vector<std::string>;

TEST(Detokenizer, TOK_01_ACharacterWaitsUntilItIsWhole) {
  TokenizerPtr tokenizer = demo_tokenizer();
  EXPECT_EQ(deltas(tokenizer, byte_ids(*tokenizer, "歪")), (Deltas{"", "", "歪", ""}));
  EXPECT_EQ(deltas(tokenizer, byte_ids(*tokenizer, "a😀b")), (Deltas{"a", "", "", "", "😀", "b", ""}));
}

TEST(Detokenizer, TOK_03_WhatWasReleasedNeverComesAgain) {
  TokenizerPtr tokenizer = demo_tokenizer();
  std::string text = "A 世ab";
  std::string joined;
  for (const std::string& delta : deltas(tokenizer, byte_ids(*tokenizer, text))) joined += delta;
  EXPECT_EQ(joined, text);
}

TEST(Detokenizer, TOK_05_NoReplacementCharacterForACharacterInTwoTokens) {
  TokenizerPtr tokenizer = demo_tokenizer();
  Deltas expected = {"", "\xC4\x8F", "", "\xC3\xA1", "b", ""};
  EXPECT_EQ(deltas(tokenizer, byte_ids(*tokenizer,
                                       "\xC4\x8F\xC3\xA1"
                                       "b")),
            expected);
}

TEST(Detokenizer, BytesThatCannotBecomeACharacterAreReleasedAtOnce) {
  TokenizerPtr tokenizer = demo_tokenizer();
  EXPECT_EQ(deltas(tokenizer, byte_ids(*tokenizer,
                                       "\xFF\xE6"
                                       "a\xE6\xAD")),
            (Deltas{"\xFF", "",
                    "\xE6"
                    "a",
                    "", "", "\xE6\xAD"}));
}

TEST(Detokenizer, LeavesOutWhatDecodeLeavesOut) {
  TokenizerPtr tokenizer = demo_tokenizer();
  std::vector<int32_t> ids = tokenizer->encode_with_special("a<|im_end|>b");
  ids.push_back(1 << 20);
  Detokenizer detokenizer(tokenizer, false);
  std::string text;
  for (int32_t id : ids) text += detokenizer.push(id);
  EXPECT_EQ(text + detokenizer.finish(), "ab");
  EXPECT_EQ(tokenizer->decode(ids, false), "ab");
}

TEST(Detokenizer, JoinedReleasesAreTheWholeDecode) {
  RandomStream random({.run_seed = 11});
  for (const TokenizerPtr& tokenizer : {demo_tokenizer(), small_tokenizer()}) {
    for (int round = 0; round < 1500; ++round) {
      std::vector<int32_t> ids;
      size_t count = random.below(40);
      for (size_t i = 0; i < count; ++i)
        ids.push_back(static_cast<int32_t>(random.below(tokenizer->vocabulary_size() + 3)));
      if (round % 2 == 0) ids = tokenizer->encode(random_bytes(random, 20));
      std::string bytes;
      std::string valid;
      for (const std::string& delta : deltas(tokenizer, ids)) {
        bytes += delta;
        valid += to_valid_utf8(delta);
      }
      EXPECT_EQ(bytes, tokenizer->decode(ids));
      EXPECT_EQ(valid, to_valid_utf8(bytes));
    }
  }
}

}  // namespace
}  // namespace stoker
