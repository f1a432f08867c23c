#include <gtest/gtest.h>

#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/post_processor.h"
#include "text/testing/tokenizers.h"
#include "text/testing/vocabulary_goldens.h"

namespace stoker {
namespace {

std::vector<Json> golden_rows(const std::string& name) {
  return read_rows(shared_data() / "goldens" / (name + ".jsonl"));
}

TEST(VocabularyGolden, Llama3FromTiktokenEqualsItsTokenizerJsonAndLlamaCpp) {
  std::filesystem::path folder = shared_data() / "tokenizers" / "llama3-tiktoken";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "shared/data is not here";
  TokenizerPtr json = shared_tokenizer("llama3_1");
  TokenizerPtr tiktoken = Tokenizer::load(folder);
  check_vocabulary_goldens(*json, "llama-bpe");
  check_vocabulary_goldens(*tiktoken, "llama-bpe");
  for (const Json& row : golden_rows("encode_llama3_1")) {
    const std::string& text = row.at("text").as_string();
    EXPECT_EQ(tiktoken->encode_with_special(text), to_ids(row.at("ids"))) << text;
  }
  RandomStream random({.run_seed = 51});
  for (int round = 0; round < 500; ++round) {
    std::string text = random_bytes(random, 30);
    EXPECT_EQ(tiktoken->encode(text), json->encode(text)) << text;
  }
  EXPECT_EQ(tiktoken->vocabulary_size(), json->vocabulary_size());
  for (int32_t id = 128000; id < json->vocabulary_size(); ++id) {
    EXPECT_EQ(tiktoken->token_bytes(id), json->token_bytes(id));
  }
  EXPECT_EQ(tiktoken->post_processor().before, json->post_processor().before);
}

TEST(VocabularyGolden, Llama2AndPhi3FromSentencePieceEqualLlamaCpp) {
  std::filesystem::path file = shared_data() / "tokenizers" / "llama2-spm" / "tokenizer.model";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "shared/data is not here";
  TokenizerPtr tokenizer = Tokenizer::load(file);
  check_vocabulary_goldens(*tokenizer, "llama-spm");
  check_vocabulary_goldens(*tokenizer, "phi-3");  // which has Llama 2's vocabulary and further added tokens
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("Hello  world")), "Hello  world");
}

TEST(VocabularyGolden, Qwen2EqualsLlamaCpp) {
  if (!std::filesystem::exists(shared_data() / "tokenizers" / "qwen3"))
    GTEST_SKIP() << "shared/data is not here";
  check_vocabulary_goldens(*shared_tokenizer("qwen3"), "qwen2");  // whose vocabulary is Qwen 3's
}

TEST(VocabularyGolden, DeepSeekLlmIsNotHere) {
  std::filesystem::path file = shared_data() / "vocab-goldens" / "ggml-vocab-deepseek-llm.gguf";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "the vocabulary of deepseek-llm is not in shared/data";
  FAIL() << file << " has come; compare it with its .inp and .out";
}

// Per-token release of text, for each tokenizer of the recorded rows.
class IncrementalDecode : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, IncrementalDecode, testing::Values("qwen3", "llama3_1", "gemma3"),
                         [](const auto& info) { return info.param; });

TEST_P(IncrementalDecode, TOK_01_03_05_EveryReleaseEqualsTheRecordedOne) {
  std::string name = GetParam();
  if (!std::filesystem::exists(shared_data() / "tokenizers" / name))
    GTEST_SKIP() << "shared/data is not here";
  TokenizerPtr tokenizer = shared_tokenizer(name);
  size_t count = 0;
  for (const Json& row : golden_rows("incremental_decode")) {
    if (row.at("model").as_string() != name) continue;
    ++count;
    Detokenizer detokenizer(tokenizer);
    const Json::Array& deltas = row.at("deltas").as_array();
    std::vector<int32_t> ids = to_ids(row.at("ids"));
    ASSERT_EQ(ids.size(), deltas.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(to_valid_utf8(detokenizer.push(ids[i])), deltas[i].as_string()) << row.dump();
    }
    EXPECT_EQ(to_valid_utf8(detokenizer.finish()), row.at("flush").as_string()) << row.dump();
  }
  EXPECT_GT(count, 10u);
}

}  // namespace
}  // namespace stoker
