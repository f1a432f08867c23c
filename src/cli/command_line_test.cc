#include "cli/command_line.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/testing/test_folder.h"
#include "cli/command.h"
#include "cli/standard_output.h"

namespace stoker {
namespace {

int run_words(std::vector<std::string> words) {
  words.insert(words.begin(), "stoker");
  std::vector<char*> values;
  for (std::string& word : words) values.push_back(word.data());
  return run_command_line(static_cast<int>(values.size()), values.data());
}

// What a wrong command line is told; its exit status must be that of wrong use.
std::string refusal(const std::vector<std::string>& words) {
  testing::internal::CaptureStderr();
  const int status = run_words(words);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, kExitWrongUse) << told;
  EXPECT_EQ(told.find("Unexpected failure"), std::string::npos) << told;
  return told;
}

void expect_told(const std::vector<std::string>& words, const std::vector<std::string>& parts) {
  const std::string told = refusal(words);
  for (const std::string& part : parts) EXPECT_NE(told.find(part), std::string::npos) << part << ": " << told;
}

TEST(CommandLine, UnknownVerbsAreNamedAtEveryLevel) {
  expect_told({"trian"}, {"\"trian\"", "did you mean train?", "simulate"});
  expect_told({"--quiet", "trian"}, {"\"trian\"", "did you mean train?"});
  expect_told({"text", "foo"}, {"\"foo\" of 'stoker text'", "parse, encode, decode, render, bridge"});
  expect_told({"env", "chek"}, {"\"chek\" of 'stoker env'", "did you mean check?", "check, serve"});
  expect_told({"trace", "foo"}, {"\"foo\" of 'stoker trace'", "summary"});
  expect_told({"bench", "--quiet", "foo"}, {"\"foo\" of 'stoker bench'", "async"});
  expect_told({"text"}, {"'stoker text' needs a verb: parse, encode", "'stoker text --help'"});
  expect_told({}, {"'stoker' needs a verb: init", "'stoker --help'"});
}

TEST(CommandLine, AnUnknownEnvironmentToServeIsTold) {
  expect_told({"env", "serve", "arithmetik"}, {"kind must be one of", "did you mean \"arithmetic\"?"});
}

TEST(CommandLine, WhatDoesNotParseIsToldWithItsRemedy) {
  expect_told({"train", "run.toml", "--resme"},
              {"no option --resme of 'stoker train'", "did you mean --resume?", "'stoker train --help'"});
  expect_told({"text", "encode", "--tokenizer", "x", "--frobnicate=3"},
              {"no option --frobnicate of 'stoker text encode'", "'stoker text encode --help'"});
  expect_told({"replay", "a", "b"},
              {"'stoker replay' takes no further argument \"b\"", "'stoker replay --help'"});
  expect_told({"generate", "m", "--prompt"}, {"--prompt needs a value", "'stoker generate --help'"});
  expect_told({"generate", "m", "--temperature", "warm"},
              {"--temperature must be a number, but is \"warm\""});
  expect_told({"train"}, {"RUN.toml is required", "'stoker train --help'"});
  expect_told({"train", "run.toml", "--resume", "--overwrite"},
              {"--resume", "excludes", "'stoker train --help'"});
}

TEST(CommandLine, CountsThatAreNoCountsAreToldWhatTheyMayBe) {
  expect_told({"env", "check", "run.toml", "--episodes", "0"},
              {"--episodes must be a whole number of at least 1, but is \"0\"", "'stoker env check --help'"});
  expect_told({"env", "check", "run.toml", "--episodes", "1.5"}, {"--episodes must be a whole number"});
  expect_told({"episodes", "run", "--limit", "-3"}, {"--limit must be a whole number of at least 1"});
  expect_told({"generate", "m", "--samples", "0"}, {"--samples must be"});
  expect_told({"generate", "m", "--max-tokens", "-1"}, {"--max-tokens must be"});
  expect_told({"score", "m", "--threads", "5000"}, {"--threads must be a whole number from 0 to 1024"});
  expect_told({"bench", "async", "--seeds", "0"}, {"--seeds must be a whole number from 1 to 10000"});
  expect_told({"bench", "async", "--steps", "3"}, {"--steps must be a whole number"});
}

TEST(CommandLine, EmptyNamesAreToldWhatTheyAre) {
  const TestFolder folder;
  write_file_atomic(folder / "run.toml", "");
  const std::string run_file = (folder / "run.toml").string();
  expect_told({"train", ""}, {"RUN.toml must not be empty"});
  expect_told({"train", run_file, "--json", ""}, {"--json must not be empty"});
  expect_told({"train", run_file, "output="}, {"output (command line) is empty", "output=FOLDER"});
  expect_told({"train", run_file, "output=" + (folder / "run").string(), "model.path="}, {"model.path"});
  expect_told({"generate", ""}, {"MODEL must not be empty"});
  expect_told({"init", ""}, {"DIRECTORY must not be empty"});
  expect_told({"episodes", ""}, {"RUN must not be empty"});
  expect_told({"text", "encode", "--tokenizer", ""}, {"--tokenizer must not be empty"});
}

TEST(CommandLine, AnOutputFileThatCannotBeWrittenIsRefusedBeforeTheWork) {
  const TestFolder folder;
  write_file_atomic(folder / "file", "");
  const std::string nowhere = (folder / "file" / "figures.json").string();
  for (const std::vector<std::string>& verb :
       std::vector<std::vector<std::string>>{{"sft", "missing.toml"},
                                             {"train", "missing.toml"},
                                             {"eval", "missing.toml"},
                                             {"env", "check", "missing.toml"},
                                             {"trace", "summary", "missing"},
                                             {"simulate"},
                                             {"bench", "async"}}) {
    std::vector<std::string> words = verb;
    words.insert(words.end(), {"--json", nowhere});
    expect_told(words, {"--json: Cannot write", nowhere});
  }
  expect_told({"bench", "async", "--markdown", nowhere}, {"--markdown: Cannot write", nowhere});
  expect_told({"simulate", "--json", folder.path().string()},
              {"--json: Cannot write", folder.path().string()});
}

TEST(CommandLine, AFolderThatCannotBeMadeIsRefusedBeforeTheWork) {
  const TestFolder folder;
  write_file_atomic(folder / "file", "");
  write_file_atomic(folder / "run.toml", "");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"init", (folder / "file" / "model").string()},
           {"simulate", "--json", (folder / "file" / "folder" / "figures.json").string()},
           {"train", (folder / "run.toml").string(), "output=" + (folder / "file" / "run").string()}}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_words(words), kExitFailed);
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_NE(told.find("cannot be written: Not a directory"), std::string::npos) << told;
  }
}

// How a process ended that ran the command line with a standard output of its own, and what it told.
struct Ended {
  int status = 0;
  std::string told;
};

Ended run_with_output(int output, std::vector<std::string> words, rlim_t file_limit = RLIM_INFINITY) {
  const TestFolder folder;
  const std::string errors = (folder / "errors").string();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int error_file = ::open(errors.c_str(), O_WRONLY | O_CREAT, 0644);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(error_file, STDERR_FILENO);
    const rlimit limit{.rlim_cur = file_limit, .rlim_max = RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(run_words(std::move(words)));
  }
  ::close(output);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  return {.status = WEXITSTATUS(status), .told = read_file(errors)};
}

TEST(CommandLine, AReaderThatHasGoneEndsAVerbQuietly) {
  const TestFolder folder;
  write_file_atomic(folder / "run.toml", "");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"keys"},
                                             {"--help"},
                                             {"text", "parse", "--format", "list"},
                                             {"train", (folder / "run.toml").string(), "--dry-run"}}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ::close(ends[0]);
    const Ended ended = run_with_output(ends[1], words);
    EXPECT_EQ(ended.status, kExitOutputClosed) << words[0];
    EXPECT_EQ(ended.told, "") << words[0];
  }
}

TEST(CommandLine, AFullDiskUnderTheOutputIsTold) {
  const Ended ended = run_with_output(::open("/dev/full", O_WRONLY), {"keys"});
  EXPECT_EQ(ended.status, kExitFailed);
  EXPECT_NE(ended.told.find("could not be written to its end"), std::string::npos) << ended.told;
}

// ulimit -f: the write fails as on a full disk, and the process lives to tell it.
TEST(CommandLine, TheLimitOfAFilesSizeIsAnErrorLikeAFullDisk) {
  const TestFolder folder;
  const int output = ::open((folder / "output").c_str(), O_WRONLY | O_CREAT, 0644);
  const Ended ended = run_with_output(output, {"keys"}, 512);
  EXPECT_EQ(ended.status, kExitFailed);
  EXPECT_NE(ended.told.find("could not be written to its end"), std::string::npos) << ended.told;
}

}  // namespace
}  // namespace stoker
