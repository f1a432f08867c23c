#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace stoker {
namespace {

// A random model over the bytes 'a' to 'd' and what they merge to.
struct RandomModel {
  BpeModel model;
  std::map<std::pair<int32_t, int32_t>, std::pair<uint32_t, int32_t>> merges;  // pair -> (rank, merged)
  std::map<int32_t, std::string> bytes;

  explicit RandomModel(uint64_t seed, int merge_count) {
    RandomStream random({.run_seed = seed});
    for (int byte = 0; byte < 256; ++byte) {
      model.byte_ids[byte] = byte;
      bytes[byte] = std::string(1, static_cast<char>(byte));
    }
    std::vector<int32_t> known = {'a', 'b', 'c', 'd'};
    std::map<std::string, int32_t> by_bytes;
    for (int i = 0; i < merge_count; ++i) {
      int32_t left = known[random.below(known.size())];
      int32_t right = known[random.below(known.size())];
      if (merges.contains({left, right})) continue;
      // Two pairs of the same bytes make the same token, as in a real vocabulary.
      auto [place, fresh] =
          by_bytes.emplace(bytes[left] + bytes[right], 256 + static_cast<int32_t>(by_bytes.size()));
      if (fresh) {
        bytes[place->second] = place->first;
        known.push_back(place->second);
      }
      merges[{left, right}] = {static_cast<uint32_t>(merges.size()), place->second};
      model.add_merge(left, right, place->second);
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

std::vector<BpeModel::Piece> encode(const BpeModel& model, std::string_view word) {
  BpeModel::Workspace workspace;
  std::vector<BpeModel::Piece> pieces;
  model.encode(word, workspace, pieces);
  return pieces;
}

TEST(Bpe, AgreesWithThePlainAlgorithm) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    RandomModel random_model(seed, 40);
    RandomStream random({.run_seed = seed, .sample = 1});
    for (int round = 0; round < 60; ++round) {
      std::string word;
      size_t size = 1 + random.below(40);
      for (size_t i = 0; i < size; ++i)
        word.push_back(static_cast<char>('a' + random.below(round % 3 == 0 ? 1 : 4)));
      std::vector<int32_t> ids;
      std::string bytes;
      for (const BpeModel::Piece& piece : encode(random_model.model, word)) {
        ids.push_back(piece.id);
        bytes += random_model.bytes.at(piece.id);
        EXPECT_EQ(piece.size, random_model.bytes.at(piece.id).size());
      }
      EXPECT_EQ(bytes, word);
      EXPECT_EQ(ids, random_model.plain(word)) << word;
    }
  }
}

TEST(Bpe, WholeWordsAreNotTakenApart) {
  RandomModel random_model(1, 40);
  std::string word = "abcdabcd";
  ASSERT_GT(encode(random_model.model, word).size(), 1u);
  random_model.model.set_whole_words({{word, 9999}});
  std::vector<BpeModel::Piece> pieces = encode(random_model.model, word);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].id, 9999);
  EXPECT_EQ(pieces[0].size, word.size());
}

}  // namespace
}  // namespace stoker
