#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "text/testing/shared_data.h"

namespace stoker {

// Compares with llama.cpp's recorded tokens of the vocabulary `name`: texts between separator lines, and a
// line of ids for each.
inline void check_vocabulary_goldens(const Tokenizer& tokenizer, const std::string& name) {
  std::filesystem::path path = shared_data() / "vocab-goldens" / ("ggml-vocab-" + name + ".gguf");
  std::string texts = read_file(path.string() + ".inp");
  std::istringstream answers(read_file(path.string() + ".out"));
  const std::string separator = "\n__ggml_vocab_test__\n";
  size_t count = 0;
  for (size_t begin = 0; begin < texts.size(); ++count) {
    size_t end = std::min(texts.find(separator, begin), texts.size());
    std::string line;
    std::getline(answers, line);
    std::istringstream numbers(line);
    std::vector<int32_t> expected;
    for (int32_t id = 0; numbers >> id;) expected.push_back(id);
    std::string text = texts.substr(begin, end - begin);
    EXPECT_EQ(tokenizer.encode(text), expected) << name << ": '" << text << "'";
    begin = end + separator.size();
  }
  EXPECT_GE(count, 40u);
}

}  // namespace stoker
