#include "cli/run_start.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing/test_folder.h"
#include "model/gguf_tokenizer.h"
#include "model/testing/gguf_builder.h"
#include "text/tokenizer_builder.h"

namespace stoker {
namespace {

std::string gguf_with(const std::string& chat_template) {
  GgufBuilder builder;
  builder.add_string("tokenizer.ggml.model", "llama");
  builder.add_strings("tokenizer.ggml.tokens", {"<unk>", "\xE2\x96\x81", "a",
                                                "\xE2\x96\x81"
                                                "a"});
  builder.add_numbers<float>("tokenizer.ggml.scores", GgufValueType::kFloat32, {0, -1, -2, -1.5});
  builder.add_numbers<int32_t>("tokenizer.ggml.token_type", GgufValueType::kInt32, {2, 1, 1, 1});
  builder.add_string("tokenizer.chat_template", chat_template);
  return builder.build();
}

std::string template_in(const std::filesystem::path& folder) {
  return load_chat_template(folder)->source(false);
}

TEST(RunStart, ModelsOfARunThatBeganWithAGgufFileGetItsTokenizer) {
  TestFolder folder;
  RunFile file;
  file.config.model.path = folder.write("model.gguf", gguf_with("its own"));
  file.config.output = (folder.path() / "run").string();

  RunStart start = start_run({}, file, "sft");
  EXPECT_EQ(start.tokenizer_source(), start.folder.path());
  TokenizerPtr tokenizer = load_tokenizer(start.tokenizer_source());
  EXPECT_EQ(tokenizer->encode("a aa"), load_tokenizer(file.config.model.path)->encode("a aa"));
  EXPECT_EQ(template_in(start.tokenizer_source()), "its own");
}

TEST(RunStart, ModelsOfARunGetTheFilesOfTheirModelDirectory) {
  TestFolder folder;
  RunFile file;
  file.config.model.path = (folder.path() / "model").string();
  file.config.output = (folder.path() / "run").string();
  std::filesystem::create_directory(file.config.model.path);
  for (const char* name : {"qwen.tiktoken", "chat_template.jinja", "generation_config.json"}) {
    folder.write(std::string("model/") + name, std::string("what is in ") + name);
  }
  RunStart start = start_run({}, file, "train");
  for (const char* name : {"qwen.tiktoken", "chat_template.jinja", "generation_config.json"}) {
    EXPECT_EQ(read_file(start.tokenizer_source() / name), std::string("what is in ") + name);
  }
}

TEST(RunStart, ModelsOfARunGetItsOwnChatTemplate) {
  TestFolder folder;
  RunFile file;
  file.config.model.path = folder.write("model.gguf", gguf_with("its own"));
  file.config.model.chat_template = folder.write("other.jinja", "the run's");
  file.config.output = (folder.path() / "run").string();
  EXPECT_EQ(template_in(start_run({}, file, "train").tokenizer_source()), "the run's");

  // The one that lies in the run folder is read before it is replaced.
  file.config.model.chat_template = (folder.path() / "run/chat_template.jinja").string();
  EXPECT_EQ(template_in(start_run({.resume = true}, file, "train").tokenizer_source()), "the run's");

  file.config.model.chat_template = "chatml";
  EXPECT_EQ(template_in(start_run({.resume = true}, file, "train").tokenizer_source()), chatml_template());

  file.config.model.chat_template = "";
  EXPECT_EQ(template_in(start_run({.resume = true}, file, "train").tokenizer_source()), "its own");
}

TEST(RunStart, NothingStaysOfAnotherModelsTokenizer) {
  TestFolder folder;
  RunFile file;
  file.config.model.path = (folder.path() / "model").string();
  file.config.output = (folder.path() / "run").string();
  std::filesystem::create_directory(file.config.model.path);
  for (const char* name :
       {"qwen.tiktoken", "tokenizer.json", "chat_template.json", "generation_config.json"}) {
    folder.write(std::string("model/") + name, "{}");
  }
  start_run({}, file, "train");
  file.config.model.path = folder.write("model.gguf", gguf_with("its own"));
  const std::filesystem::path kept = start_run({.resume = true}, file, "train").tokenizer_source();
  for (const char* name : {"qwen.tiktoken", "chat_template.json", "generation_config.json"}) {
    EXPECT_FALSE(std::filesystem::exists(kept / name)) << name;
  }
  EXPECT_EQ(template_in(kept), "its own");
}

TEST(RunStart, AFolderMayHoldItsTokenizerInAGgufFile) {
  TestFolder folder;
  RunFile file;
  file.config.model.path = (folder.path() / "model").string();
  file.config.output = (folder.path() / "run").string();
  std::filesystem::create_directory(file.config.model.path);
  folder.write("model/model.gguf", gguf_with("of the file"));
  folder.write("model/chat_template.jinja", "of the folder");
  const std::filesystem::path kept = start_run({}, file, "train").tokenizer_source();
  EXPECT_EQ(template_in(file.config.model.path), "of the folder");
  EXPECT_EQ(template_in(kept), "of the folder");
  EXPECT_EQ(load_tokenizer(kept)->encode("a aa"), load_tokenizer(file.config.model.path)->encode("a aa"));
}

TEST(RunStart, OverwriteKeepsTheTemplateThatTheRunReads) {
  TestFolder folder;
  RunConfig config;
  config.output = (folder.path() / "run").string();
  std::filesystem::create_directory(config.output);
  config.model.path = folder.write("model.gguf", gguf_with("its own"));
  config.model.chat_template = folder.write("run/chat_template.jinja", "the run's");
  folder.write("run/run.toml", "");
  EXPECT_THROW(check_run_folder({.overwrite = true}, config), Error);
  config.model.chat_template = "chatml";
  EXPECT_NO_THROW(check_run_folder({.overwrite = true}, config));
}

}  // namespace
}  // namespace stoker
