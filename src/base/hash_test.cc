#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>

namespace stoker {
namespace {

// Published check values: RFC 3720 appendix B.4 and the catalogue's "123456789".
TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
}

TEST(Crc32c, GoesOnFromAnEarlierPart) {
  std::string text = "the furnace lights";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(crc32c(text.substr(cut), crc32c(text.substr(0, cut))), crc32c(text));
  }
}

TEST(Hash, InPartsIsTheHashOfTheWhole) {
  std::string text(1000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  for (size_t part : {1, 3, 64, 999}) {
    Hasher64 hasher;
    for (size_t i = 0; i < text.size(); i += part) {
      std::string piece = text.substr(i, part);
      hasher.add(piece.data(), piece.size());
    }
    EXPECT_EQ(hasher.digest(), hash64(text)) << part;
  }
}

// XXH3 of the empty input with seed 0, as in the sanity tables of the xxHash library.
TEST(Hash, KnownAnswers) {
  EXPECT_EQ(hash64(""), 0x2d06800538d394c2u);
  EXPECT_EQ(digest_hex(""), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, EveryByteAndTheSeedCount) {
  std::set<uint64_t> seen;
  std::string text(200, 'a');
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = 'b';
    seen.insert(hash64(changed));
  }
  for (uint64_t seed = 0; seed < 50; ++seed) seen.insert(hash64(text, seed));
  EXPECT_EQ(seen.size(), 250u);
}

}  // namespace
}  // namespace stoker
