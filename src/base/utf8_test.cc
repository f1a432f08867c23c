#include "base/utf8.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(Utf8, EveryCodePointSurvives) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string bytes;
    append_utf8(bytes, c);
    Utf8Step step = utf8_step(bytes);
    ASSERT_TRUE(step.valid) << static_cast<uint32_t>(c);
    ASSERT_TRUE(step.code_point == c);
    ASSERT_EQ(step.size, bytes.size());
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      Utf8Step part = utf8_step(std::string_view(bytes).substr(0, cut));
      ASSERT_TRUE(part.incomplete && !part.valid && part.size == cut) << static_cast<uint32_t>(c);
    }
  }
}

// Expected by Python 3.11: bytes.decode(errors="replace").
TEST(Utf8, InvalidPartsAreReplacedAsPythonDoes) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(to_valid_utf8("a\xFFz"), "a" + r + "z");
  EXPECT_EQ(to_valid_utf8("\xE6\xAD"), r);  // cut
  EXPECT_EQ(to_valid_utf8("\xE6\xAD"
                          "a"),
            r + "a");                                           // maximal part
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), r + r + r);          // surrogate
  EXPECT_EQ(to_valid_utf8("\xC0\x80"), r + r);                  // overlong
  EXPECT_EQ(to_valid_utf8("\xE0\x80\x80"), r + r + r);          // overlong
  EXPECT_EQ(to_valid_utf8("\xF4\x90\x80\x80"), r + r + r + r);  // above U+10FFFF
  EXPECT_EQ(to_valid_utf8("\xF0\x9F\x98"), r);                  // cut
  EXPECT_EQ(to_valid_utf8("\xF0\x9F\x98\xF0\x9F\x98\x80"), r + "😀");
  EXPECT_EQ(to_valid_utf8("\x80\x80"), r + r);
  EXPECT_EQ(to_valid_utf8("plain é歪😀"), "plain é歪😀");
}

}  // namespace
}  // namespace stoker
