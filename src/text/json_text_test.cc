#include "text/json_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "text/testing/tokenizers.h"

namespace stoker {
namespace {

// Recorded from json.dumps(json.loads(text), ensure_ascii=False) of Python 3.
TEST(PythonJson, PrintsAsPythonDoes) {
  for (const Json& row : read_rows(text_goldens() / "python_json.jsonl")) {
    EXPECT_EQ(python_json(Json::parse(row.at("json").as_string())), row.at("python").as_string());
  }
}

JsonScan::Status status(std::string_view text) { return scan_json(text).status; }

TEST(ScanJson, FindsTheEndOfTheValue) {
  for (std::string_view value :
       {R"({"a": "}\"{", "b": [1, {}, []], "c": -1.5e+3})", "[]", "{}", R"("x\u00e9\\")", "true",
        "[[[1]], null, false]", R"({ "a" : 1 , "b" : [ ] })"}) {
    for (std::string_view rest : {"", " ", "}", "x</tool_call>", "\n{\"n\": 1}"}) {
      std::string text = std::string(value) + std::string(rest);
      JsonScan scan = scan_json(text);
      EXPECT_EQ(scan.status, JsonScan::Status::kComplete) << text;
      EXPECT_EQ(scan.position, value.size()) << text;
    }
    for (size_t cut = 0; cut < value.size(); ++cut) {
      JsonScan scan = scan_json(value.substr(0, cut));
      EXPECT_EQ(scan.status, JsonScan::Status::kIncomplete) << value.substr(0, cut);
      EXPECT_EQ(scan.position, cut);
    }
  }
}

TEST(ScanJson, NamesTheFirstByteThatIsWrong) {
  auto place = [](std::string_view text) {
    JsonScan scan = scan_json(text);
    EXPECT_EQ(scan.status, JsonScan::Status::kInvalid) << text;
    return scan.position;
  };
  EXPECT_EQ(place(R"({"cmd": "ls" "x": 1})"), 13u);
  EXPECT_EQ(place(R"({"path": "a.txt", })"), 18u);
  EXPECT_EQ(place("{cmd: 1}"), 1u);
  EXPECT_EQ(place(R"({"a" 1})"), 5u);
  EXPECT_EQ(place("[1 2]"), 3u);
  EXPECT_EQ(place("[1,]"), 3u);
  EXPECT_EQ(place("[1}"), 2u);
  EXPECT_EQ(place("{]"), 1u);
  EXPECT_EQ(place(" {}"), 0u);
  EXPECT_EQ(place("[01]"), 2u);
  EXPECT_EQ(place("[-x]"), 2u);
  EXPECT_EQ(place("[1.]"), 3u);
  EXPECT_EQ(place("[trux]"), 4u);
  EXPECT_EQ(place("\"a\nb\""), 2u);
  EXPECT_EQ(place(R"("\q")"), 2u);
  EXPECT_EQ(place(R"("\u12g4")"), 5u);
  EXPECT_EQ(place(std::string(200, '[')), 128u);
}

TEST(ScanJson, AgreesWithTheParserOnDamagedText) {
  std::string good =
      R"({"name": "f", "arguments": {"x": [1, 2.5, -3e2, true, null, "aé\n\u0041"], "y": {}}})";
  RandomStream random({.run_seed = 9});
  int valid = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (size_t i = 1 + random.below(2); i > 0; --i) {
      size_t at = random.below(text.size());
      constexpr std::string_view kBytes = "{}[]\",:\\0 1-e.tn";
      if (random.below(2) == 0) {
        text[at] = kBytes[random.below(kBytes.size())];
      } else {
        text.erase(at, 1);
      }
    }
    JsonScan scan = scan_json(text);
    bool parses = Json::try_parse(text).ok();
    bool whole = scan.status == JsonScan::Status::kComplete && scan.position == text.size();
    EXPECT_LE(scan.position, text.size());
    // What the scanner takes the parser may still refuse (characters that are cut in two, half surrogates).
    if (parses) EXPECT_TRUE(whole) << text;
    if (status(text) == JsonScan::Status::kInvalid) EXPECT_FALSE(parses) << text;
    valid += parses;
  }
  EXPECT_GT(valid, 1000);
  EXPECT_LT(valid, 19000);
}

TEST(WithoutDuplicates, KeepsTheLastValueAtTheFirstPlace) {
  Json json = Json::parse(R"({"a": 1, "b": [{"x": 1, "x": 2}], "a": {"y": 3, "y": 4}})");
  EXPECT_EQ(without_duplicates(json).dump(), Json::parse(R"({"a": {"y": 4}, "b": [{"x": 2}]})").dump());
  // So many members that they are found by a table.
  std::string written = "{", kept = "{";
  for (int i = 0; i < 40; ++i) {
    written += fmt::format("{}\"m{}\": {}", i == 0 ? "" : ", ", i % 25, i);
    if (i < 25) kept += fmt::format("{}\"m{}\": {}", i == 0 ? "" : ", ", i, i < 15 ? i + 25 : i);
  }
  EXPECT_EQ(without_duplicates(Json::parse(written + "}")), Json::parse(kept + "}"));
}

}  // namespace
}  // namespace stoker
