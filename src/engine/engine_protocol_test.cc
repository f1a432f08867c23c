#include "engine/engine_protocol.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <string>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/testing/test_folder.h"
#include "engine/engine_test_support.h"

namespace stoker {
namespace {

// Any bits, those of no number too.
float any_float(RandomStream& random) { return std::bit_cast<float>(static_cast<uint32_t>(random.bits())); }

std::string any_bytes(RandomStream& random) {
  std::string bytes(random.below(12), ' ');
  for (char& byte : bytes) byte = static_cast<char>(random.below(256));
  return bytes;
}

uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

Json through_text(const Json& json) { return Json::parse(json.dump()); }

TEST(EngineProtocol, TokensArriveBitForBit) {
  RandomStream random({.run_seed = 4});
  for (int round = 0; round < 300; ++round) {
    SampledToken token{.id = static_cast<int32_t>(random.below(1 << 30)),
                       .log_probability = any_float(random),
                       .version = static_cast<int64_t>(random.bits() >> 1),
                       .mixed = random.below(2) == 1,
                       .drawn_log_probability = any_float(random)};
    for (uint64_t i = random.below(4); i > 0; --i) {
      token.top.push_back({static_cast<int32_t>(random.below(1000)), any_float(random)});
    }
    std::string list;
    append_token(list, 5, token);
    append_token(list, 6, token);
    const Json elements = Json::parse("[" + list + "]");
    ASSERT_EQ(elements.as_array().size(), 2);
    const EngineTokenMessage read = engine_token_from_json(elements.as_array()[1]);
    EXPECT_EQ(read.request, 6);
    EXPECT_EQ(read.token.id, token.id);
    EXPECT_EQ(bits(read.token.log_probability), bits(token.log_probability));
    EXPECT_EQ(read.token.version, token.version);
    EXPECT_EQ(read.token.mixed, token.mixed);
    EXPECT_EQ(bits(read.token.drawn_log_probability), bits(token.drawn_log_probability));
    ASSERT_EQ(read.token.top.size(), token.top.size());
    for (size_t i = 0; i < token.top.size(); ++i) {
      EXPECT_EQ(read.token.top[i].id, token.top[i].id);
      EXPECT_EQ(bits(read.token.top[i].log_probability), bits(token.top[i].log_probability));
    }
  }
}

TEST(EngineProtocol, RequestsArriveWhole) {
  RandomStream random({.run_seed = 5});
  for (int round = 0; round < 100; ++round) {
    GenerateRequest request = random_request(random, random.bits());
    SamplingParameters& sampling = request.sampling;
    sampling.min_p = any_float(random);
    sampling.repetition_penalty = any_float(random);
    sampling.presence_penalty = any_float(random);
    sampling.frequency_penalty = any_float(random);
    sampling.logit_bias = {{3, any_float(random)}, {4, any_float(random)}};
    sampling.forbidden_tokens = random_tokens(random, 3);
    sampling.top_log_probabilities = static_cast<int32_t>(random.below(5));
    request.stop.strings = {any_bytes(random), any_bytes(random)};
    request.stream = {random.bits(),
                      RandomPurpose::kEvaluate,
                      random.bits(),
                      static_cast<uint32_t>(random.bits()),
                      static_cast<uint32_t>(random.bits()),
                      static_cast<uint32_t>(random.bits())};
    request.first_position = random.bits();
    const GenerateRequest read = generate_request_from_json(through_text(to_json(request)));
    EXPECT_EQ(read.tokens, request.tokens);
    EXPECT_EQ(read.stop.max_tokens, request.stop.max_tokens);
    EXPECT_EQ(read.stop.tokens, request.stop.tokens);
    EXPECT_EQ(read.stop.strings, request.stop.strings);
    EXPECT_EQ(read.stream, request.stream);
    EXPECT_EQ(read.first_position, request.first_position);
    EXPECT_EQ(bits(read.sampling.temperature), bits(sampling.temperature));
    EXPECT_EQ(read.sampling.top_k, sampling.top_k);
    EXPECT_EQ(bits(read.sampling.top_p), bits(sampling.top_p));
    EXPECT_EQ(bits(read.sampling.min_p), bits(sampling.min_p));
    EXPECT_EQ(bits(read.sampling.repetition_penalty), bits(sampling.repetition_penalty));
    EXPECT_EQ(bits(read.sampling.presence_penalty), bits(sampling.presence_penalty));
    EXPECT_EQ(bits(read.sampling.frequency_penalty), bits(sampling.frequency_penalty));
    ASSERT_EQ(read.sampling.logit_bias.size(), 2);
    EXPECT_EQ(bits(read.sampling.logit_bias[1].bias), bits(sampling.logit_bias[1].bias));
    EXPECT_EQ(read.sampling.forbidden_tokens, sampling.forbidden_tokens);
    EXPECT_EQ(read.sampling.top_log_probabilities, sampling.top_log_probabilities);
  }
}

TEST(EngineProtocol, EndsArriveWhole) {
  const Completion completion{StopReason::kStopString, 7, 16, std::string("cut \xe2\x82 off\0", 11)};
  const Completion read = completion_from_json(through_text(to_json(completion)));
  EXPECT_EQ(read.stop_reason, completion.stop_reason);
  EXPECT_EQ(read.sampled_tokens, 7);
  EXPECT_EQ(read.cached_tokens, 16);
  EXPECT_EQ(read.text, completion.text);

  const Failure failure{FailureClass::kLimit, "context_length", "Too long."};
  EXPECT_EQ(failure_from_json(through_text(to_json(failure))), failure);

  const std::exception_ptr thrown = std::make_exception_ptr(input_error("Token 3 is none."));
  const Error error = error_from_json(through_text(error_to_json(thrown)));
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_STREQ(error.what(), "Token 3 is none.");

  const EngineStatistics statistics{1, 2, 3, 4, 5, 6, 7, 8, 9, 0.1};
  const EngineStatistics numbers = engine_statistics_from_json(through_text(to_json(statistics)));
  EXPECT_EQ(to_json(numbers), to_json(statistics));
  EXPECT_EQ(numbers.cache_blocks_total, 9);
  EXPECT_EQ(numbers.busy_seconds, 0.1);
}

TEST(EngineProtocol, AStartNamesTheSameModelAndOptions) {
  const EngineStart start{.config = test_model_config(),
                          .tokenizer = "some/where",
                          .threads = 3,
                          .options = {.max_batch = 5,
                                      .max_cache_bytes = int64_t{3} << 33,
                                      .prefill_chunk = 7,
                                      .prefix_cache = false,
                                      .recompute_cache = true,
                                      .compute_type = ComputeType::kBfloat16,
                                      .vocabulary_size = 36}};
  const EngineStart read = engine_start_from_json(through_text(to_json(start)));
  EXPECT_EQ(read.config, start.config);
  EXPECT_EQ(read.options.compute_type, ComputeType::kBfloat16);
  EXPECT_EQ(through_text(to_json(read)), through_text(to_json(start)));
}

TEST(EngineProtocol, RefusesWhatIsNotOfIt) {
  EXPECT_THROW(engine_token_from_json(Json::parse("[1,2,3]")), Error);
  EXPECT_THROW(engine_token_from_json(Json::parse("[1,2,4294967296,0,0,0,[]]")), Error);
  EXPECT_THROW(completion_from_json(
                   Json::parse(R"({"stop_reason":9,"sampled_tokens":1,"cached_tokens":0,"text":""})")),
               Error);
  EXPECT_THROW(completion_from_json(
                   Json::parse(R"({"stop_reason":1,"sampled_tokens":1,"cached_tokens":0,"text":"0g"})")),
               Error);
  EXPECT_THROW(engine_statistics_from_json(Json::parse("[1,2,3]")), Error);
  EXPECT_THROW(generate_request_from_json(
                   Json::parse(R"({"tokens":[],"sampling":{"temperature":0,"top_k":0,"top_p":0,"min_p":0,)"
                               R"("repetition_penalty":0,"presence_penalty":0,"frequency_penalty":0,)"
                               R"("logit_bias":[[1]],"forbidden_tokens":[],"top_log_probabilities":0}})")),
               Error);
}

Task<std::shared_ptr<const OwnedWeightsFile>> write(WeightsFiles* files, WeightsPtr weights) {
  co_return *co_await files->write(std::move(weights));
}

TEST(WeightsFiles, GiveTheSameWeightsUntilTheyAreReplaced) {
  const TestFolder folder;
  SimulatedExecutor executor(1);
  Pool pool;
  WeightsFiles files(folder / "weights", pool);
  const WeightsPtr first = test_weights(3), second = test_weights(4, 2);
  std::shared_ptr<const OwnedWeightsFile> file = run(executor, write(&files, first));
  EXPECT_EQ(run(executor, write(&files, first)), file) << "is written once";
  const WeightsPtr read = read_weights_file(file->file(), test_model_config());
  EXPECT_EQ(read->version(), 3);
  EXPECT_EQ(read->digest(), first->digest());
  const WeightsFile old = file->file();
  const auto next = run(executor, write(&files, second));
  EXPECT_TRUE(std::filesystem::exists(old.path)) << "is held";
  file.reset();
  EXPECT_FALSE(std::filesystem::exists(old.path));
  EXPECT_EQ(read_weights_file(next->file(), test_model_config())->digest(), second->digest());
}

TEST(WeightsFiles, NothingIsLeftOfAKilledRunsAndNothingElseIsTouched) {
  const TestFolder folder;
  SimulatedExecutor executor(1);
  Pool pool;
  write_file_atomic(folder / "beside", "kept");
  std::filesystem::create_directories(folder / "weights" / "deeper");
  write_file_atomic(folder / "weights" / "deeper" / "1.weights.part", "left");
  std::filesystem::create_directory_symlink(folder.path(), folder / "weights" / "link");
  {
    WeightsFiles files(folder / "weights", pool);
    EXPECT_TRUE(std::filesystem::is_empty(folder / "weights"));
    run(executor, write(&files, test_weights(1)));
    write_file_atomic(folder / "weights" / "2.weights.part", "cut off");
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "weights"));
  EXPECT_EQ(read_file(folder / "beside"), "kept");
  WeightsFiles::remove_left(folder / "weights");  // is not there
  std::filesystem::create_directory(folder / "other");
  write_file_atomic(folder / "other" / "file", "kept");
  std::filesystem::create_directory_symlink(folder / "other", folder / "weights");
  WeightsFiles::remove_left(folder / "weights");
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "weights"));
  EXPECT_EQ(read_file(folder / "other" / "file"), "kept");
}

TEST(WeightsFiles, AFileThatWasTouchedIsRefused) {
  const TestFolder folder;
  SimulatedExecutor executor(1);
  Pool pool;
  WeightsFiles files(folder / "weights", pool);
  const auto file = run(executor, write(&files, test_weights(1)));
  std::string bytes = read_file(file->file().path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file_atomic(file->file().path, bytes);
  EXPECT_THROW(read_weights_file(file->file(), test_model_config()), Error);
  write_file_atomic(file->file().path, bytes.substr(1));
  EXPECT_THROW(read_weights_file(file->file(), test_model_config()), Error);
}

TEST(WeightsFiles, WhatTheDiskRefusesIsAFailure) {
  const TestFolder folder;
  SimulatedExecutor executor(1);
  Pool pool;
  WeightsFiles files(folder / "weights", pool);
  std::filesystem::remove_all(folder / "weights");
  const auto refused = [](WeightsFiles* of) -> Task<std::string> {
    const auto result = co_await of->write(test_weights(1));
    co_return result ? "" : result.failure().name();
  };
  EXPECT_EQ(run(executor, refused(&files)), "infrastructure.weights_file");
}

}  // namespace
}  // namespace stoker
