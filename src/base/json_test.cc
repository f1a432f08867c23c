#include "base/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/json_string.h"
#include "base/random.h"

namespace stoker {
namespace {

Json parsed(std::string_view text) { return Json::parse(text); }

std::string message_of(std::string_view text) {
  Result<Json> result = Json::try_parse(text);
  return result ? "" : result.failure().message;
}

TEST(Json, KeepsTypesAndOrder) {
  Json value = parsed(R"({"z": 1, "a": 1.0, "b": [true, null, "x"], "m": {}})");
  EXPECT_EQ(value.dump(), R"({"z":1,"a":1.0,"b":[true,null,"x"],"m":{}})");
  EXPECT_TRUE(value.at("z").is_integer());
  EXPECT_TRUE(value.at("a").is_double());
  EXPECT_EQ(value.at("b").as_array().size(), 3u);
  EXPECT_STREQ(value.at("m").type_name(), "object");
  EXPECT_STREQ(value.at("a").type_name(), "number");
  EXPECT_STREQ(value.at("z").type_name(), "integer");
}

TEST(Json, WhatATemporaryHoldsOutlivesIt) {
  const std::string word = "long enough to be on the heap, not inside the string itself";
  const std::string text = R"({"words": [")" + word + R"("], "word": ")" + word + R"("})";
  size_t seen = 0;
  for (const Json& element : parsed(text).at("words").as_array()) {
    EXPECT_EQ(element.as_string(), word);
    ++seen;
  }
  for (const auto& [name, value] : parsed(text).as_object()) seen += name == "words" || name == "word";
  EXPECT_EQ(seen, 3u);
  const std::string& kept = parsed(text).at("word").as_string();
  EXPECT_EQ(kept, word);
}

TEST(Json, IntegersKeep64Bits) {
  for (const char* text : {"0", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
                           "18446744073709551615"}) {
    EXPECT_EQ(parsed(text).dump(), text);
    EXPECT_TRUE(parsed(text).is_integer()) << text;
  }
  EXPECT_EQ(parsed("18446744073709551615").as_uint(), UINT64_MAX);
  EXPECT_THROW(parsed("18446744073709551615").as_int(), Error);
  EXPECT_THROW(parsed("-1").as_uint(), Error);
  EXPECT_EQ(Json(UINT64_MAX).as_uint(), UINT64_MAX);
  EXPECT_EQ(Json(uint64_t{5}), Json(5));
  EXPECT_EQ(Json(5.0).as_int(), 5);
  EXPECT_THROW(Json(5.5).as_int(), Error);
  EXPECT_THROW(Json(1e30).as_int(), Error);
}

TEST(Json, DoublesReadBackBitForBit) {
  RandomStream random(StreamKey{.run_seed = 3});
  for (int i = 0; i < 20000; ++i) {
    double value = std::bit_cast<double>(random.bits());
    if (!std::isfinite(value)) continue;
    Json back = parsed(Json(value).dump());
    ASSERT_TRUE(back.is_double()) << Json(value).dump();
    ASSERT_EQ(std::bit_cast<uint64_t>(back.as_double()), std::bit_cast<uint64_t>(value));
  }
  EXPECT_EQ(Json(-0.0).dump(), "-0.0");
  EXPECT_TRUE(std::signbit(parsed("-0").as_double()));
  EXPECT_EQ(parsed("1e-400").as_double(), 0.0);
}

TEST(Json, FloatsReadBackBitForBit) {
  RandomStream random(StreamKey{.run_seed = 4});
  for (int i = 0; i < 20000; ++i) {
    float value = std::bit_cast<float>(static_cast<uint32_t>(random.bits()));
    if (!std::isfinite(value)) continue;
    auto back = static_cast<float>(parsed(Json(value).dump()).as_double());
    ASSERT_EQ(std::bit_cast<uint32_t>(back), std::bit_cast<uint32_t>(value));
  }
}

TEST(Json, MET_05_NonFiniteNumbersAreNull) {
  const double infinity = std::numeric_limits<double>::infinity();
  Json row = Json::object({{"reward", std::nan("")}, {"logprob", -infinity}, {"metric", infinity}});
  EXPECT_EQ(row.dump(), R"({"reward":null,"logprob":null,"metric":null})");
  EXPECT_TRUE(parsed(row.dump()).at("reward").is_null());
}

TEST(Json, StringsEscapeAndReadBack) {
  std::string hard = "quote\" slash\\ line\n tab\t bell\x07 nul";
  hard.push_back('\0');
  hard += "é😀";
  EXPECT_EQ(parsed(Json(hard).dump()).as_string(), hard);
  EXPECT_EQ(parsed(R"("\u00e9\ud83d\ude00\/")").as_string(), "é😀/");
  EXPECT_EQ(Json(hard).dump().find('\n'), std::string::npos);
}

TEST(Json, BytesThatAreNoUtf8BecomeReplacementCharacters) {
  EXPECT_EQ(Json("a\xFF"
                 "b\xC3")
                .dump(),
            "\"a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\"");
  // Surrogates, overlong forms and values past U+10FFFF are no UTF-8; each of their bytes is replaced.
  for (const char* bytes : {"\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80", "\xE0\x80\x80"}) {
    std::string text = Json(bytes).dump();
    EXPECT_EQ(text.size(), 2 + 3 * std::string_view(bytes).size());
    EXPECT_TRUE(Json::try_parse(text).ok());
  }
}

TEST(Json, RefusesWhatIsNoJson) {
  for (const char* text :
       {"",    " ",        "{",     "[1,]", "{\"a\":}", "{a:1}",       "[1 2]",   "nul",
        "01",  "+1",       "1.",    ".5",   "\"a",      "\"\t\"",      "\"\\x\"", "[1] 2",
        "NaN", "Infinity", "1e999", "'a'",  "\"\xFF\"", "\"\\ud800\"", "[1]//c",  "{\"a\" 1}"}) {
    EXPECT_FALSE(Json::try_parse(text).ok()) << text;
  }
  EXPECT_TRUE(Json::try_parse(" \r\n\t[1] \n").ok());
}

TEST(Json, FailuresNameThePlace) {
  EXPECT_EQ(message_of("[1,\n 2,\n  x]"), "this is not valid JSON: unexpected 'x' at line 3, column 3");
  EXPECT_EQ(message_of("{\"a\": 1"), "the text ends in the middle of a value at line 1, column 8");
  EXPECT_EQ(message_of("1\n2"), "more text follows the value at line 2, column 1");
  try {
    Json::parse("[", "tasks.jsonl, line 7");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_STREQ(error.what(),
                 "tasks.jsonl, line 7: the text ends in the middle of a value at line 1, column 2.");
  }
}

TEST(Json, DepthIsBounded) {
  std::string deep(100000, '[');
  EXPECT_EQ(message_of(deep), "the nesting is too deep at line 1, column 129");
  EXPECT_TRUE(Json::try_parse(std::string(128, '[') + std::string(128, ']')).ok());
  EXPECT_FALSE(Json::try_parse("[[[]]]", 2).ok());
  EXPECT_TRUE(Json::try_parse("[[]]", 2).ok());
}

TEST(Json, WrongTypesAreNamed) {
  try {
    parsed("[]").as_string();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "expected a string, found an array");
  }
  EXPECT_THROW(parsed("{}").at("x"), Error);
  EXPECT_THROW(parsed("1").at("x"), Error);
  const Json number = 1;
  EXPECT_EQ(number.find("x"), nullptr);
}

TEST(Json, TheLastOfTwoMembersWinsAndSetReplacesIt) {
  Json value = parsed(R"({"a":1,"a":2})");
  EXPECT_EQ(value.at("a").as_int(), 2);
  value.set("a", 3);
  value.set("b", "x");
  EXPECT_EQ(value.dump(), R"({"a":1,"a":3,"b":"x"})");
  Json fresh;
  fresh.set("k", true);
  EXPECT_EQ(fresh.dump(), R"({"k":true})");
  EXPECT_THROW(Json(1).set("k", 1), Error);
}

TEST(Json, PrettyFormIsTheSameValue) {
  Json value = parsed(R"({"a":[1,{"b":[]}],"c":{}})");
  EXPECT_EQ(value.dump_pretty(),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}");
  EXPECT_EQ(parsed(value.dump_pretty()), value);
}

// A value of random shape; the text form must read back to an equal one.
Json random_json(RandomStream& random, int depth) {
  switch (random.below(depth > 0 ? 7 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return random.below(2) == 0;
    case 2:
      return static_cast<long long>(random.bits());
    case 3:
      return random.normal() * 1e6;
    case 4: {
      std::string text;
      for (uint64_t i = random.below(8); i > 0; --i) text.push_back(static_cast<char>(random.below(128)));
      return text;
    }
    case 5: {
      Json::Array elements;
      for (uint64_t i = random.below(5); i > 0; --i) elements.push_back(random_json(random, depth - 1));
      return elements;
    }
    default: {
      Json::Object members;
      for (uint64_t i = random.below(5); i > 0; --i) {
        members.emplace_back("k" + std::to_string(random.below(100)), random_json(random, depth - 1));
      }
      return Json::object(std::move(members));
    }
  }
}

TEST(Json, RandomValuesReadBack) {
  RandomStream random(StreamKey{.run_seed = 9});
  for (int i = 0; i < 3000; ++i) {
    Json value = random_json(random, 5);
    ASSERT_EQ(parsed(value.dump()), value) << value.dump();
    ASSERT_EQ(parsed(value.dump_pretty()), value);
  }
}

TEST(Json, CutAndChangedTextsNeverCrash) {
  RandomStream random(StreamKey{.run_seed = 10});
  for (int i = 0; i < 3000; ++i) {
    std::string text = random_json(random, 4).dump();
    text.resize(random.below(text.size() + 1));
    if (!text.empty()) text[random.below(text.size())] = static_cast<char>(random.below(256));
    Result<Json> result = Json::try_parse(text);
    if (result) {
      EXPECT_EQ(parsed(result->dump()), *result);
    } else {
      EXPECT_NE(result.failure().message.find(" at line "), std::string::npos);
    }
  }
}

TEST(Json, StringsAreEscapedInTheShortForm) {
  std::string out;
  append_json_string(out, std::string_view("\"\\\b\f\n\r\t\0\x1F/\x7F\xC3\xA9", 13));
  EXPECT_EQ(out, "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f/\x7F\xC3\xA9\"");
  out.clear();
  append_json_string(out, "a\xE2\x82z");
  EXPECT_EQ(out, "\"a\xEF\xBF\xBDz\"");  // one maximal invalid part
  out.clear();
  append_json_string(out, "a\xE2\x82z", InvalidUtf8::kKeep);
  EXPECT_EQ(out, "\"a\xE2\x82z\"");
}

}  // namespace
}  // namespace stoker
