#include "cli/text_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/testing/test_folder.h"
#include "text/tokenizer_builder.h"

namespace stoker {
namespace {

using testing::HasSubstr;

// The demo's tokenizer: "\n" is 0, printable ASCII follows from id 1, "<|im_end|>" is special, "<tool_call>"
// is not; each text begins with <|im_start|>.
class TextCommand : public testing::Test {
 protected:
  TextCommand() {
    Json json = build_tokenizer_json({"user"});
    json.set(
        "post_processor",
        Json::parse(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|im_start|>"}},
                             {"Sequence": {"id": "A"}}], "special_tokens": {"<|im_start|>": {"id": "<|im_start|>",
                             "ids": [257], "tokens": ["<|im_start|>"]}}})"));
    path_ = folder_.write("tokenizer.json", json.dump());
  }

  std::string encode(const std::string& input, TextEncodeArguments arguments = {}) {
    arguments.tokenizer = path_;
    std::istringstream in(input);
    std::ostringstream out;
    encode_texts(arguments, in, out);
    return out.str();
  }
  std::string decode(const std::string& input, TextDecodeArguments arguments = {}) {
    arguments.tokenizer = path_;
    std::istringstream in(input);
    std::ostringstream out;
    decode_texts(arguments, in, out);
    return out.str();
  }
  template <typename Action>
  static std::string refusal(Action action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "";
  }

  TestFolder folder_;
  std::filesystem::path path_;
};

TEST_F(TextCommand, EncodesAJsonStringALine) {
  EXPECT_EQ(encode("\"!\\n\"\n\n  \"\"\r\n"),
            "{\"ids\": [2, 0], \"offsets\": [[0, 1], [1, 2]]}\n{\"ids\": [], \"offsets\": []}\n");
  TextEncodeArguments raw;
  raw.raw = true;
  EXPECT_EQ(encode("!\nuser", raw), "{\"ids\": [2, 0, 263], \"offsets\": [[0, 1], [1, 2], [2, 6]]}\n");
}

TEST_F(TextCommand, TOK_11_SpecialTokensAreTextUnlessAskedFor) {
  EXPECT_THAT(encode("\"<|im_end|>\""), testing::Not(HasSubstr("258")));
  TextEncodeArguments control;
  control.special = "control";
  EXPECT_EQ(encode("\"<|im_end|>\"", control), "{\"ids\": [258], \"offsets\": [[0, 10]]}\n");
  control.special = "maybe";
  EXPECT_THAT(refusal([&] { encode("\"\"", control); }), HasSubstr("'maybe'"));
}

TEST_F(TextCommand, BosIsPutInFrontOnce) {
  TextEncodeArguments bos;
  bos.add_bos = true;
  bos.special = "control";
  EXPECT_EQ(encode("\"!\"", bos), "{\"ids\": [257, 2], \"offsets\": [[0, 0], [0, 1]]}\n");
  EXPECT_EQ(encode("\"<|im_start|>!\"", bos), "{\"ids\": [257, 2], \"offsets\": [[0, 12], [12, 13]]}\n");
}

TEST_F(TextCommand, DecodesAListALineAndAsAStream) {
  EXPECT_EQ(decode("[2, 0, 258]"), "{\"text\": \"!\\n<|im_end|>\"}\n");
  TextDecodeArguments stream;
  stream.stream = true;
  stream.skip_special = true;
  std::string ids = encode("\"\\u00e9\"");  // two tokens, one character
  ids = ids.substr(ids.find('['), ids.find(']') - ids.find('[') + 1);
  EXPECT_EQ(decode(ids, stream), "{\"text\": \"\u00e9\", \"deltas\": [\"\", \"\u00e9\"], \"flush\": \"\"}\n");
  EXPECT_EQ(decode("[258, 2]", stream), "{\"text\": \"!\", \"deltas\": [\"\", \"!\"], \"flush\": \"\"}\n");
}

TEST_F(TextCommand, TOK_01_BytesThatAreNoUtf8AreKept) {
  TextEncodeArguments raw;
  raw.raw = true;
  std::string halves = encode("\xE6\xAD", raw);
  EXPECT_EQ(encode("\"\\ud800x\""), encode("\xED\xA0\x80x", raw));  // half a pair is its three bytes
  EXPECT_EQ(encode("\"\\ud83d\\ude00\""), encode("\U0001F600", raw));
  halves = halves.substr(halves.find('['), halves.find(']') - halves.find('[') + 1);
  TextDecodeArguments stream;
  stream.stream = true;
  EXPECT_EQ(decode(halves, stream),
            "{\"text\": \"\uFFFD\", \"deltas\": [\"\", \"\"], \"flush\": \"\uFFFD\"}\n");
}

TEST_F(TextCommand, NamesTheLineAndTheRemedy) {
  EXPECT_THAT(refusal([&] { encode("\"a\"\nb\n"); }),
              testing::AllOf(HasSubstr("Line 2"), HasSubstr("--raw")));
  EXPECT_THAT(refusal([&] { encode("[1]\n"); }), HasSubstr("Line 1 of the input holds an array"));
  EXPECT_THAT(refusal([&] { encode("\"\\ud800\\x\"\n"); }), HasSubstr("Line 1 of the input is no JSON"));
  EXPECT_THAT(refusal([&] { decode("[1]\n[2, \"a\"]\n"); }), HasSubstr("Line 2 of the input holds \"a\""));
  EXPECT_THAT(refusal([&] { decode("7\n"); }), HasSubstr("is no list but 7"));
  EXPECT_THAT(refusal([&] { decode("[99999999999]\n"); }), HasSubstr("99999999999"));
  EXPECT_EQ(decode("[-1, 100000]\n"), "{\"text\": \"\"}\n");  // TOK-13: no token, no text
}

}  // namespace
}  // namespace stoker
