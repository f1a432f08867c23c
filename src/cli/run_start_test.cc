#include "cli/run_start.h"

#include <gtest/gtest.h>

#include "base/testing/test_folder.h"
#include "model/gguf_tokenizer.h"
#include "model/testing/gguf_builder.h"

namespace stoker {
namespace {

TEST(RunStart, ModelsOfARunThatBeganWithAGgufFileGetItsTokenizer) {
  TestFolder folder;
  GgufBuilder builder;
  builder.add_string("tokenizer.ggml.model", "llama");
  builder.add_strings("tokenizer.ggml.tokens", {"<unk>", "\xE2\x96\x81", "a",
                                                "\xE2\x96\x81"
                                                "a"});
  builder.add_numbers<float>("tokenizer.ggml.scores", GgufValueType::kFloat32, {0, -1, -2, -1.5});
  builder.add_numbers<int32_t>("tokenizer.ggml.token_type", GgufValueType::kInt32, {2, 1, 1, 1});
  RunFile file;
  file.config.model.path = folder.write("model.gguf", builder.build());
  file.config.output = (folder.path() / "run").string();

  RunStart start = start_run({}, file, "sft");
  EXPECT_EQ(start.tokenizer_source, start.folder.path());
  TokenizerPtr tokenizer = load_tokenizer(start.tokenizer_source);
  EXPECT_EQ(tokenizer->encode("a aa"), load_tokenizer(file.config.model.path)->encode("a aa"));
}

}  // namespace
}  // namespace stoker
