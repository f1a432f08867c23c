#include "compute/cpu/decoder.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "compute/cpu/packed_weights.h"
#include "compute/cpu/reference.h"
#include "compute/cpu/test_support.h"

namespace stoker::cpu {
namespace {

std::vector<ModelConfig> configs() {
  ModelConfig odd = odd_config();
  ModelConfig even = even_config();
  ModelConfig biased = odd_config();
  biased.model_type = "qwen2";
  biased.qk_norm = false;
  biased.attention_bias = true;
  biased.tie_word_embeddings = true;
  ModelConfig plain = even_config();
  plain.model_type = "llama";
  plain.qk_norm = false;
  plain.num_key_value_heads = 1;
  return {odd, even, biased, plain, gemma2_config(), gemma3_config()};
}

// All logits [tokens, vocabulary] of a sequence fed in chunks of `chunk` tokens.
std::vector<float> decode(DecoderForward& decoder, const ModelConfig& config,
                          const std::vector<int32_t>& tokens, size_t chunk, int32_t capacity,
                          Parallel& parallel, ComputeType type = ComputeType::kFloat32) {
  CachedSequence sequence(config, capacity, type);
  std::vector<float> logits(tokens.size() * config.vocab_size);
  for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const auto part = std::span(tokens).subspan(begin, std::min(chunk, tokens.size() - begin));
    const SequenceChunk request = sequence.append(part);
    std::vector<int32_t> rows(part.size());
    std::iota(rows.begin(), rows.end(), 0);
    decoder.run({&request, 1}, rows, logits.data() + begin * config.vocab_size, parallel);
  }
  return logits;
}

TEST(DecoderForward, GivesTheBitsOfThePlainTwin) {
  SerialParallel serial;
  for (const ModelConfig& config : configs()) {
    const Weights weights = random_weights(config, 5);
    const std::vector<int32_t> tokens = random_tokens(45, 6, config.vocab_size);
    for (const ComputeType type : kComputeTypes) {
      DecoderForward decoder(pack_weights(weights, type, serial), config.vocab_size);
      const std::vector<float> expected =
          reference::sequence_logits<float>(config, weights.values(), tokens, type);
      EXPECT_EQ(first_difference(decode(decoder, config, tokens, tokens.size(), 64, serial, type), expected),
                -1)
          << config.model_type << " in " << to_string(type);
    }
  }
}

TEST(DecoderForward, DoesNotDependOnChunksBlocksOrThreads) {
  for (const ModelConfig& config : configs()) {
    const Weights weights = random_weights(config, 7);
    const std::vector<int32_t> tokens = random_tokens(150, 8, config.vocab_size);
    SerialParallel serial;
    DecoderForward decoder(pack_weights(weights, ComputeType::kFloat32, serial), config.vocab_size);
    const std::vector<float> expected = decode(decoder, config, tokens, tokens.size(), 160, serial);
    for (const int threads : {1, 2, 3}) {
      ThreadTeam team(threads);
      for (const size_t chunk : {size_t{1}, size_t{7}, size_t{64}, tokens.size()}) {
        for (const int32_t capacity : {5, 16, 160}) {
          EXPECT_EQ(first_difference(decode(decoder, config, tokens, chunk, capacity, team), expected), -1)
              << threads << " threads, chunks of " << chunk << ", blocks of " << capacity;
        }
      }
    }
  }
}

TEST(DecoderForward, DoesNotDependOnHowThreadsShareAPass) {
  for (const ModelConfig& config : configs()) {
    const Weights weights = random_weights(config, 7);
    const std::vector<int32_t> tokens = random_tokens(40, 8, config.vocab_size);
    for (const ComputeType type : kComputeTypes) {
      SerialParallel serial;
      const auto packed = pack_weights(weights, type, serial);
      DecoderForward rows(packed, config.vocab_size, DecoderForward::Split::kRows);
      DecoderForward columns(packed, config.vocab_size, DecoderForward::Split::kColumns);
      const std::vector<float> expected = decode(rows, config, tokens, tokens.size(), 64, serial, type);
      for (const int threads : {2, 3}) {
        ThreadTeam team(threads);
        for (const size_t chunk : {size_t{3}, size_t{13}}) {
          EXPECT_EQ(first_difference(decode(columns, config, tokens, chunk, 16, team, type), expected), -1)
              << config.model_type << " in " << to_string(type) << ", " << threads << " threads, chunks of "
              << chunk;
        }
      }
    }
  }
}

// Three sequences, of which the middle one asks for no logits.
TEST(DecoderForward, SharesPassesOfSeveralSequencesByColumns) {
  const ModelConfig config = gemma2_config();
  const Weights weights = random_weights(config, 9);
  ThreadTeam team(2);
  const auto packed = pack_weights(weights, ComputeType::kFloat32, team);
  std::vector<std::vector<float>> results;
  for (const auto split : {DecoderForward::Split::kRows, DecoderForward::Split::kColumns}) {
    DecoderForward decoder(packed, 31, split);
    std::vector<CachedSequence> sequences(3, CachedSequence(config, 16));
    std::vector<float> logits(4 * 31);
    for (int step = 0; step < 8; ++step) {
      std::vector<std::vector<int32_t>> input;
      std::vector<SequenceChunk> chunks;
      for (size_t s = 0; s < 3; ++s) input.push_back(random_tokens(1 + (s + step) % 4, 7 * s + step, 31));
      for (size_t s = 0; s < 3; ++s) chunks.push_back(sequences[s].append(input[s]));
      const auto first = static_cast<int32_t>(input[0].size());
      const auto total = static_cast<int32_t>(first + input[1].size() + input[2].size());
      decoder.run(chunks, std::vector<int32_t>{0, first - 1, total - 1}, logits.data(), team);
      results.push_back(logits);
    }
  }
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(first_difference(results[i], results[8 + i]), -1) << i;
}

TEST(DecoderForward, DoesNotDependOnChunksBlocksOrThreadsInBfloat16) {
  for (const ModelConfig& config : configs()) {
    const Weights weights = random_weights(config, 7);
    const std::vector<int32_t> tokens = random_tokens(90, 8, config.vocab_size);
    SerialParallel serial;
    constexpr ComputeType kType = ComputeType::kBfloat16;
    DecoderForward decoder(pack_weights(weights, kType, serial), config.vocab_size);
    const std::vector<float> expected = decode(decoder, config, tokens, tokens.size(), 96, serial, kType);
    ThreadTeam team(2);
    for (const size_t chunk : {size_t{1}, size_t{7}, size_t{64}}) {
      for (const int32_t capacity : {5, 16}) {
        EXPECT_EQ(first_difference(decode(decoder, config, tokens, chunk, capacity, team, kType), expected),
                  -1)
            << "chunks of " << chunk << ", blocks of " << capacity;
      }
    }
  }
}

// What a model saved in BF16 and loaded again computes.
TEST(DecoderForward, Bfloat16OfRoundedWeightsIsThatOfTheWeights) {
  const ModelConfig config = odd_config();
  const Weights weights = random_weights(config, 7);
  Weights rounded(config);
  std::ranges::copy(reference::rounded<float>(weights.values(), ComputeType::kBfloat16),
                    rounded.values().begin());
  const std::vector<int32_t> tokens = random_tokens(20, 8, config.vocab_size);
  SerialParallel serial;
  std::vector<std::vector<float>> logits;
  for (const Weights* w : {&weights, static_cast<const Weights*>(&rounded)}) {
    DecoderForward decoder(pack_weights(*w, ComputeType::kBfloat16, serial), config.vocab_size);
    logits.push_back(decode(decoder, config, tokens, 20, 32, serial, ComputeType::kBfloat16));
  }
  EXPECT_EQ(first_difference(logits[0], logits[1]), -1);
  DecoderForward exact(pack_weights(weights, ComputeType::kFloat32, serial), config.vocab_size);
  const double error = relative_error(logits[0], decode(exact, config, tokens, 20, 32, serial));
  EXPECT_GT(error, 1e-4) << "rounding must matter for this to test anything";
  EXPECT_LT(error, 3e-2);
}

TEST(DecoderForward, DoesNotDependOnOtherSequencesOfThePass) {
  const ModelConfig config = even_config();
  const Weights weights = random_weights(config, 9);
  SerialParallel serial;
  DecoderForward decoder(pack_weights(weights, ComputeType::kFloat32, serial), config.vocab_size);
  const std::vector<int32_t> tokens = random_tokens(40, 10, config.vocab_size);
  const std::vector<float> expected = decode(decoder, config, tokens, 1, 16, serial);
  for (const int threads : {1, 2, 3}) {
    ThreadTeam team(threads);
    // 64 sequences: ours is number 17, the others have other lengths and each step another chunk size.
    std::vector<CachedSequence> sequences(64, CachedSequence(config, 16));
    std::vector<float> logits;
    for (size_t t = 0; t < tokens.size(); ++t) {
      std::vector<std::vector<int32_t>> input(64);
      std::vector<SequenceChunk> chunks;
      std::vector<int32_t> last;
      int32_t rows = 0;
      for (size_t s = 0; s < 64; ++s) {
        input[s] =
            s == 17 ? std::vector<int32_t>{tokens[t]} : random_tokens(1 + (s + t) % 3, s * 100 + t, 64);
        chunks.push_back(sequences[s].append(input[s]));
        rows += static_cast<int32_t>(input[s].size());
        last.push_back(rows - 1);
      }
      std::vector<float> all(64 * config.vocab_size);
      decoder.run(chunks, last, all.data(), team);
      logits.insert(logits.end(), all.begin() + 17 * config.vocab_size, all.begin() + 18 * config.vocab_size);
    }
    EXPECT_EQ(first_difference(logits, expected), -1) << threads << " threads";
  }
}

TEST(DecoderForward, PackedWeightsTakeTheMemoryOfOutdatedOnes) {
  ModelConfig config = odd_config();
  config.attention_bias = true;
  const Weights first = random_weights(config, 5), second = random_weights(config, 6);
  const std::vector<int32_t> tokens = random_tokens(9, 6, config.vocab_size);
  SerialParallel serial;
  for (const ComputeType type : kComputeTypes) {
    const auto logits = [&](const std::shared_ptr<const PackedWeights>& packed) {
      DecoderForward decoder(packed, config.vocab_size);
      return decode(decoder, config, tokens, 9, 16, serial, type);
    };
    const std::vector<float> expected = logits(pack_weights(second, type, serial));
    auto packed = pack_weights(first, type, serial);
    const float* memory = packed->head.buffer.data();
    packed = pack_weights(second, type, serial, std::move(packed));
    EXPECT_EQ(packed->head.buffer.data(), memory);
    EXPECT_EQ(first_difference(logits(packed), expected), -1);
    const auto other = pack_weights(first, type, serial, packed);  // which still serves
    EXPECT_NE(other->head.buffer.data(), memory);
    EXPECT_EQ(first_difference(logits(packed), expected), -1);
  }
}

TEST(DecoderForward, ComputesOnlyTheRowsAndIdsThatAreAskedFor) {
  const ModelConfig config = odd_config();
  const Weights weights = random_weights(config, 11);
  SerialParallel serial;
  const auto packed = pack_weights(weights, ComputeType::kFloat32, serial);
  DecoderForward all(packed, config.vocab_size), some(packed, 21);
  const std::vector<int32_t> tokens = random_tokens(12, 12, config.vocab_size);
  const std::vector<float> expected = decode(all, config, tokens, tokens.size(), 16, serial);
  const std::vector<int32_t> rows = {3, 11};
  ThreadTeam team(2);
  for (Parallel* parallel : {static_cast<Parallel*>(&serial), static_cast<Parallel*>(&team)}) {
    CachedSequence sequence(config, 16);
    const SequenceChunk chunk = sequence.append(tokens);
    std::vector<float> logits(2 * 21 + 1, -7.0f);
    some.run({&chunk, 1}, rows, logits.data(), *parallel);
    for (size_t i = 0; i < 2; ++i) {
      for (int32_t id = 0; id < 21; ++id)
        EXPECT_EQ(logits[i * 21 + id], expected[rows[i] * config.vocab_size + id]);
    }
    EXPECT_EQ(logits.back(), -7.0f);
  }
}

TEST(DecoderForward, RefusesContextsAndTokensThatDoNotFit) {
  const ModelConfig config = odd_config();
  SerialParallel serial;
  DecoderForward decoder(pack_weights(random_weights(config, 1), ComputeType::kFloat32, serial),
                         config.vocab_size);
  std::vector<std::byte> block(kv_block_bytes(config, ComputeType::kFloat32, 16));
  std::vector<float> logits(config.vocab_size);
  const KvRun run{{block.data(), 16}, 3};
  const std::vector<int32_t> tokens = {1, 2}, outside = {1, 2, config.vocab_size}, fitting = {1, 2, 3};
  const SequenceChunk uncovered{tokens, 0, {&run, 1}}, unknown{outside, 0, {&run, 1}},
      good{fitting, 0, {&run, 1}};
  const std::vector<int32_t> row = {0}, beyond = {3};
  EXPECT_THROW(decoder.run({&uncovered, 1}, row, logits.data(), serial), Error);
  EXPECT_THROW(decoder.run({&unknown, 1}, row, logits.data(), serial), Error);
  EXPECT_THROW(decoder.run({&good, 1}, beyond, logits.data(), serial), Error);
  EXPECT_NO_THROW(decoder.run({&good, 1}, row, logits.data(), serial));
  EXPECT_THROW(DecoderForward(pack_weights(random_weights(config, 1), ComputeType::kFloat32, serial),
                              config.vocab_size + 1),
               Error);
}

}  // namespace
}  // namespace stoker::cpu
