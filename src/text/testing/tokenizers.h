#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "text/tokenizer.h"
#include "text/tokenizer_builder.h"

namespace stoker {

inline std::filesystem::path text_goldens() {
  return std::filesystem::path(STOKER_SOURCE_DIR) / "src" / "text" / "goldens";
}

// The tokenizer that `stoker init` writes.
inline TokenizerPtr demo_tokenizer() {
  static const TokenizerPtr tokenizer =
      Tokenizer::from_json(build_tokenizer_json(builder_default_words()), "demo");
  return tokenizer;
}

// A byte-level BPE of a few hundred merges with GPT-2's pattern and added tokens of every flag, trained by
// the reference.
inline TokenizerPtr small_tokenizer() {
  static const TokenizerPtr tokenizer = Tokenizer::load(text_goldens() / "small_tokenizer.json");
  return tokenizer;
}

// The lines of a JSON Lines file.
inline std::vector<Json> read_rows(const std::filesystem::path& path) {
  std::vector<Json> rows;
  for_each_line(path, [&](std::string_view line, size_t number, bool) {
    rows.push_back(Json::parse(line, path.string() + ":" + std::to_string(number)));
    return true;
  });
  return rows;
}

inline std::vector<int32_t> to_ids(const Json& list) {
  std::vector<int32_t> ids;
  for (const Json& id : list.as_array()) ids.push_back(static_cast<int32_t>(id.as_int()));
  return ids;
}

// Bytes of every kind: mostly characters that matter to tokenizers, some of them broken.
inline std::string random_bytes(RandomStream& random, size_t most) {
  static const std::vector<std::string> pieces = {
      "a",
      "b",
      "the ",
      " and",
      "1",
      "23",
      " ",
      "  ",
      "\n",
      "\r\n",
      "\t",
      "'s",
      "'ll",
      "\"",
      "{",
      "}",
      ": ",
      "<",
      ">",
      "|",
      "<|im_end|>",
      "<tool_call>",
      "user",
      "é",
      "歪",
      "ñ",
      "\xE2\x80\xA8",
      "😀",
      "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA6",
      "\xFF",
      "\xC3",
      "\xE6\xAD",
      "\xED\xA0\x80",
      std::string(1, '\0'),
      "\xC2\xA0",
      "١٢٣",
      "Ⅷ",
      "a\xCC\x81",
  };
  std::string text;
  size_t count = random.below(most + 1);
  for (size_t i = 0; i < count; ++i) {
    if (random.below(8) == 0) {
      text.push_back(static_cast<char>(random.below(256)));
    } else {
      text += pieces[random.below(pieces.size())];
    }
  }
  return text;
}

// The sentence of the Error(kInput) that `action` throws; fails the test when it throws none.
template <typename Action>
std::string input_error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

}  // namespace stoker
