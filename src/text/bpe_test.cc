#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/random.h"

namespace stoker {
namespace {

// A random model over some bytes and what they merge to.
struct RandomModel {
  BpeDefinition definition;
  std::map<std::pair<int32_t, int32_t>, std::pair<uint32_t, int32_t>> merges;  // pair -> (rank, merged)

  explicit RandomModel(uint64_t seed, int merge_count, std::vector<int32_t> known = {'a', 'b', 'c', 'd'}) {
    RandomStream random({.run_seed = seed});
    for (int byte = 0; byte < 256; ++byte) definition.tokens.emplace_back(1, static_cast<char>(byte));
    std::map<std::string, int32_t> by_bytes;
    for (int i = 0; i < merge_count; ++i) {
      int32_t left = known[random.below(known.size())];
      int32_t right = known[random.below(known.size())];
      if (merges.contains({left, right})) continue;
      // Two pairs of the same bytes make the same token, as in a real vocabulary.
      auto size = static_cast<int32_t>(definition.tokens.size());
      auto [place, fresh] = by_bytes.emplace(definition.tokens[left] + definition.tokens[right], size);
      if (fresh) {
        definition.tokens.push_back(place->first);
        known.push_back(place->second);
      }
      merges[{left, right}] = {static_cast<uint32_t>(definition.merges.size()), place->second};
      definition.merges.push_back({left, right, place->second});
    }
  }

  // Algorithm 1 of Sennrich et al. as it is written: look for the best pair, merge it, start again.
  std::vector<int32_t> plain(std::string_view word) const {
    std::vector<int32_t> ids;
    for (char c : word) ids.push_back(static_cast<uint8_t>(c));
    for (;;) {
      size_t best = ids.size();
      uint32_t rank = 0;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        auto merge = merges.find({ids[i], ids[i + 1]});
        if (merge == merges.end() || (best < ids.size() && merge->second.first >= rank)) continue;
        best = i;
        rank = merge->second.first;
      }
      if (best == ids.size()) return ids;
      ids[best] = merges.at({ids[best], ids[best + 1]}).second;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
  }
};

struct Encoded {
  std::vector<int32_t> ids;
  std::string bytes;  // of the tokens, joined
  size_t size = 0;    // sum of the pieces'
};

Encoded encode(const BpeModel& model, TokenModel::Scratch& scratch, const BpeDefinition& definition,
               std::string_view word) {
  std::vector<TokenPiece> pieces;
  model.encode(word, scratch, pieces);
  Encoded encoded;
  for (const TokenPiece& piece : pieces) {
    encoded.ids.push_back(piece.id);
    encoded.bytes += definition.tokens[piece.id];
    encoded.size += piece.size;
  }
  return encoded;
}

std::string random_word(RandomStream& random, size_t longest, uint64_t letters) {
  std::string word;
  size_t size = 1 + random.below(longest);
  for (size_t i = 0; i < size; ++i) word.push_back(static_cast<char>('a' + random.below(letters)));
  return word;
}

TEST(Bpe, AgreesWithThePlainAlgorithm) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    RandomModel random_model(seed, 40);
    for (bool byte_level : {true, false}) {
      BpeDefinition definition = random_model.definition;
      definition.byte_level = byte_level;
      definition.byte_tokens.emplace();  // of characters that are no tokens, of which there are none here
      BpeModel model(definition);
      auto scratch = model.make_scratch();
      RandomStream random({.run_seed = seed, .sample = 1});
      for (int round = 0; round < 60; ++round) {
        // Short and long words, the short ones often again, so that all ways through are taken.
        std::string word = random_word(random, round % 4 == 0 ? 150 : 30, round % 3 == 0 ? 1 : 4);
        for (int again = 0; again < 2; ++again) {
          Encoded encoded = encode(model, *scratch, definition, word);
          EXPECT_EQ(encoded.bytes, word);
          EXPECT_EQ(encoded.size, word.size());
          EXPECT_EQ(encoded.ids, random_model.plain(word)) << word;
        }
      }
    }
  }
}

// As Hugging Face's: they are left out, and their neighbours meet. Sizes still add up.
TEST(Bpe, BytesWithoutATokenAreLeftOut) {
  BpeDefinition definition{.tokens = {"a", "b", "ab"}, .merges = {{.left = 0, .right = 1, .merged = 2}}};
  BpeModel model(definition);
  auto scratch = model.make_scratch();
  struct Case {
    std::string word;
    std::vector<int32_t> ids;
  };
  for (const Case& c :
       {Case{"ab", {2}}, Case{"a?b", {2}}, Case{"??ab", {2}}, Case{"ab?", {2}}, Case{"?b??a?", {1, 0}},
        Case{std::string(40, '?') + "a" + std::string(60, '?') + "b", {2}}}) {
    for (int again = 0; again < 2; ++again) {
      Encoded encoded = encode(model, *scratch, definition, c.word);
      EXPECT_EQ(encoded.ids, c.ids) << c.word;
      EXPECT_EQ(encoded.size, c.word.size()) << c.word;
    }
  }
  EXPECT_TRUE(encode(model, *scratch, definition, "???").ids.empty());
}

// Tokens that start or end inside a character reach over boundaries at which a long word is cut.
TEST(Bpe, LongWordsOfBytesAreCutOnlyWhereNoTokenReachesOver) {
  const std::vector<std::string> characters = {
      "a", "\xC3\xA9", "\xE6\xAD\xAA", "\xE4\xB8\xAD", "\xE6\xB8\xA9", "\xF0\x9F\x98\x80"};
  std::vector<int32_t> bytes = {'a', 0xC3, 0xA9, 0xE6, 0xAD, 0xAA, 0xE4, 0xB8, 0xF0, 0x9F, 0x98, 0x80};
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomModel random_model(seed, 40 + static_cast<int>(seed) * 4, bytes);
    BpeDefinition definition = random_model.definition;
    RandomStream random({.run_seed = seed, .sample = 2});
    auto random_text = [&](size_t count) {
      std::string word;
      for (size_t i = 0; i < count; ++i) {
        word += characters[random.below(characters.size())];
        if (random.below(20) == 0) word += static_cast<char>(bytes[random.below(bytes.size())]);
      }
      return word;
    };
    definition.ignore_merges = seed % 2 == 0;
    std::string unmerged = random_text(9);  // a token that no merges give
    definition.tokens.push_back(unmerged);
    BpeModel model(definition);
    auto scratch = model.make_scratch();
    for (int round = 0; round < 60; ++round) {
      std::string word = round == 30 ? unmerged : random_text(1 + random.below(40));
      if (round % 10 == 0) word += unmerged;
      std::vector<int32_t> expected = random_model.plain(word);
      if (definition.ignore_merges && word == unmerged) {
        expected = {static_cast<int32_t>(definition.tokens.size()) - 1};
      }
      EXPECT_EQ(encode(model, *scratch, definition, word).ids, expected) << seed << " " << round;
    }
  }
}

// Indented code as SentencePiece writes it: what the cache keeps of long runs of blanks is told apart.
TEST(Bpe, WordsBehindManyBlanksAgreeWithMergingAlone) {
  const std::string blank = "\xE2\x96\x81";
  BpeDefinition definition;
  definition.byte_level = false;
  definition.byte_tokens.emplace();
  for (int byte = 0; byte < 256; ++byte) definition.tokens.emplace_back(1, static_cast<char>(byte));
  auto add = [&](int32_t left, int32_t right) {
    auto id = static_cast<int32_t>(definition.tokens.size());
    definition.tokens.push_back(definition.tokens[left] + definition.tokens[right]);
    definition.merges.push_back({left, right, id});
    return id;
  };
  definition.tokens.push_back(blank);
  int32_t two = add(256, 256);
  add(add(two, two), two);
  add(256, 'a');
  add('a', 'b');
  BpeModel model(definition);
  auto scratch = model.make_scratch();
  auto other = model.make_scratch();
  for (int round = 0; round < 2; ++round) {
    for (size_t blanks = 0; blanks <= 80; ++blanks) {
      for (const char* rest : {"", "a", "ab", "abababababababababababab", "abababababababababababababab"}) {
        std::string word;
        for (size_t i = 0; i < blanks; ++i) word += blank;
        word += rest;
        if (word.empty()) continue;
        std::vector<TokenPiece> pieces;
        model.merge_word(word, *other, pieces);
        Encoded encoded = encode(model, *scratch, definition, word);
        EXPECT_EQ(encoded.bytes, word);
        EXPECT_EQ(encoded.size, word.size());
        ASSERT_EQ(encoded.ids.size(), pieces.size()) << blanks << rest;
        for (size_t i = 0; i < pieces.size(); ++i) ASSERT_EQ(encoded.ids[i], pieces[i].id) << blanks << rest;
      }
    }
  }
}

TEST(Bpe, WholeWordsAreNotTakenApart) {
  RandomModel random_model(1, 40);
  std::string word = "abcdabcd";
  BpeDefinition definition = random_model.definition;
  definition.tokens.push_back(word);
  BpeModel model(definition);
  EXPECT_GT(encode(model, *model.make_scratch(), definition, word).ids.size(), 1u);
  definition.ignore_merges = true;
  BpeModel whole(definition);
  Encoded encoded = encode(whole, *whole.make_scratch(), definition, word);
  EXPECT_EQ(encoded.ids, std::vector<int32_t>{static_cast<int32_t>(definition.tokens.size()) - 1});
  EXPECT_EQ(encoded.size, word.size());
}

TEST(Bpe, UnknownCharactersBecomeBytesOrTheUnknownToken) {
  BpeDefinition definition;
  definition.byte_level = false;
  definition.tokens = {"<unk>", "a", "\xC3\xA9"};
  definition.unknown = 0;
  auto ids = [&](std::string_view word) {
    BpeModel model(definition);
    return encode(model, *model.make_scratch(), definition, word).ids;
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(ids("a\xC3\xA9zza\xFF"), (Ids{1, 2, 0, 0, 1, 0}));
  definition.fuse_unknown = true;
  EXPECT_EQ(ids("a\xC3\xA9zza\xFFz"), (Ids{1, 2, 0, 1, 0}));
  definition.byte_tokens.emplace();
  for (int byte = 0; byte < 256; ++byte) {
    (*definition.byte_tokens)[byte] = 3 + byte;
    definition.tokens.emplace_back();
  }
  EXPECT_EQ(ids("az\xC3\xA9\xC3"), (Ids{1, 3 + 'z', 2, 3 + 0xC3}));
}

}  // namespace
}  // namespace stoker
