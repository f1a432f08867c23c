#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/random.h"

namespace stoker {
namespace {

constexpr int32_t kBlock = KvCache::kBlockPositions;

ModelConfig small_config() {
  return {.vocab_size = 8,
          .hidden_size = 4,
          .num_hidden_layers = 2,
          .num_attention_heads = 1,
          .num_key_value_heads = 1,
          .head_dim = 4,
          .intermediate_size = 4,
          .max_position_embeddings = 4096};
}

std::vector<int32_t> counting(int32_t count, int32_t first = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Computes all full blocks of `tokens` as one sequence would: what is cached is taken, the rest allocated and
// offered.
std::vector<BlockId> compute_chain(KvCache& cache, int64_t version, const std::vector<int32_t>& tokens) {
  std::vector<BlockId> chain;
  const auto blocks = static_cast<int32_t>(tokens.size()) / kBlock;
  cache.match(version, tokens, blocks, chain);
  while (static_cast<int32_t>(chain.size()) < blocks) {
    const BlockId parent = chain.empty() ? kNoBlock : chain.back();
    const std::span<const int32_t> own = std::span(tokens).subspan(chain.size() * kBlock, kBlock);
    const BlockId block = cache.allocate();
    if (block == kNoBlock) break;
    chain.push_back(cache.insert(version, parent, own, block));
  }
  return chain;
}

TEST(KvCache, FindsWhatWasComputedBefore) {
  KvCache cache(small_config(), 10, ComputeType::kFloat32);
  std::vector<BlockId> first = compute_chain(cache, 1, counting(3 * kBlock));
  const std::vector<BlockId> blocks = first;
  cache.release(first);
  EXPECT_EQ(cache.referenced(), 0);
  EXPECT_EQ(cache.idle(), 3);

  std::vector<int32_t> longer = counting(4 * kBlock);
  std::vector<BlockId> chain;
  EXPECT_EQ(cache.match(1, longer, 4, chain), 3);
  EXPECT_EQ(chain, blocks);
  EXPECT_EQ(cache.referenced(), 3);
  cache.release(chain);

  longer[kBlock] = 999;  // differs in the second block
  EXPECT_EQ(cache.match(1, longer, 4, chain), 1);
  cache.release(chain);
  EXPECT_EQ(cache.match(1, longer, 0, chain), 0);
}

TEST(KvCache, WGT_01_AVersionNeverFindsTheBlocksOfAnother) {
  KvCache cache(small_config(), 10, ComputeType::kFloat32);
  std::vector<BlockId> chain = compute_chain(cache, 1, counting(2 * kBlock));
  std::vector<BlockId> other;
  EXPECT_EQ(cache.match(2, counting(2 * kBlock), 2, other), 0);

  cache.forget_cached();
  EXPECT_EQ(cache.match(1, counting(2 * kBlock), 2, other), 0);
  EXPECT_EQ(cache.referenced(), 2) << "chains keep what they hold";
  cache.release(chain);
  EXPECT_EQ(cache.idle(), 0) << "and nothing of it stays";
  EXPECT_EQ(cache.available(), 10);
}

TEST(KvCache, TheSameTokensBehindAnotherParentAreAnotherBlock) {
  KvCache cache(small_config(), 10, ComputeType::kFloat32);
  std::vector<int32_t> a = counting(2 * kBlock), b = counting(2 * kBlock);
  b[0] = 7;
  std::vector<BlockId> chain_a = compute_chain(cache, 1, a), chain_b = compute_chain(cache, 1, b);
  EXPECT_NE(chain_a[1], chain_b[1]);
  cache.release(chain_a);
  cache.release(chain_b);
}

TEST(KvCache, TheSecondOfTwoEqualBlocksGivesWay) {
  KvCache cache(small_config(), 4, ComputeType::kFloat32);
  const std::vector<int32_t> tokens = counting(kBlock);
  const BlockId first = cache.allocate(), second = cache.allocate();
  EXPECT_EQ(cache.insert(1, kNoBlock, tokens, first), first);
  EXPECT_EQ(cache.insert(1, kNoBlock, tokens, second), first);
  EXPECT_EQ(cache.referenced(), 1);
  std::vector<BlockId> a{first}, b{first};
  cache.release(a);
  EXPECT_EQ(cache.referenced(), 1);
  cache.release(b);
  EXPECT_EQ(cache.referenced(), 0);
}

TEST(KvCache, EvictsTheLeastRecentlyReleasedLeafFirst) {
  KvCache cache(small_config(), 4, ComputeType::kFloat32);
  std::vector<BlockId> old = compute_chain(cache, 1, counting(2 * kBlock));
  std::vector<BlockId> recent = compute_chain(cache, 1, counting(2 * kBlock, 100));
  cache.release(old);
  cache.release(recent);
  std::vector<BlockId> taken{cache.allocate()};
  std::vector<BlockId> chain;
  EXPECT_EQ(cache.match(1, counting(2 * kBlock), 2, chain), 1) << "the parent outlives its child";
  cache.release(chain);
  EXPECT_EQ(cache.match(1, counting(2 * kBlock, 100), 2, chain), 2);
  EXPECT_EQ(cache.available(), 1);
  taken.push_back(cache.allocate());
  EXPECT_EQ(cache.allocate(), kNoBlock);
  cache.release(chain);
  cache.release(taken);
  EXPECT_EQ(cache.available(), 4);
}

TEST(KvCache, AChainBehindAForgottenBlockIsRefused) {
  KvCache cache(small_config(), 4, ComputeType::kFloat32);
  std::vector<BlockId> chain = compute_chain(cache, 1, counting(kBlock));
  cache.forget_cached();
  std::vector<BlockId> next{cache.allocate()};
  EXPECT_THROW(cache.insert(1, chain[0], counting(kBlock), next[0]), Error);
  cache.release(next);
  cache.release(chain);
}

TEST(KvCache, ViewsDoNotOverlap) {
  const ModelConfig config = small_config();
  for (const ComputeType type : {ComputeType::kFloat32, ComputeType::kBfloat16}) {
    KvCache cache(config, 5000, type);
    std::vector<BlockId> blocks;
    std::set<std::byte*> starts;
    for (int i = 0; i < 5000; ++i) {
      blocks.push_back(cache.allocate());
      starts.insert(static_cast<std::byte*>(cache.view(blocks.back()).data));
    }
    const int64_t bytes = KvCache::block_bytes(config, type);
    EXPECT_EQ(bytes,
              2 * config.num_hidden_layers * kBlock * config.num_key_value_heads * 16 * bytes_of(type));
    std::byte* previous = nullptr;
    for (std::byte* start : starts) {
      if (previous != nullptr) EXPECT_GE(start - previous, bytes);
      std::fill_n(start, bytes, std::byte{1});  // AddressSanitizer sees a block outside its memory
      previous = start;
    }
    EXPECT_EQ(starts.size(), 5000u);
    cache.release(blocks);
  }
}

// Random chains against a map from (version, whole prefix) to the content that was written.
TEST(KvCache, RandomUseFindsOnlyTheRightContent) {
  RandomStream random(StreamKey{.run_seed = 23});
  KvCache cache(small_config(), 40, ComputeType::kFloat32);
  std::map<BlockId, std::pair<int64_t, std::vector<int32_t>>> content;  // what each block was computed from
  struct Chain {
    std::vector<BlockId> blocks;
    std::vector<int32_t> tokens;
  };
  std::vector<Chain> live;
  int64_t version = 1;
  int32_t found_blocks = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (random.below(3) != 0 || live.empty()) {
      Chain chain;
      for (uint64_t n = (1 + random.below(5)) * kBlock; n > 0; --n) {
        // Few different blocks, so that prefixes repeat.
        chain.tokens.push_back(chain.tokens.size() % kBlock == 3 ? static_cast<int32_t>(random.below(3)) : 0);
      }
      const auto blocks = static_cast<int32_t>(chain.tokens.size()) / kBlock;
      found_blocks += cache.match(version, chain.tokens, blocks, chain.blocks);
      for (size_t i = 0; i < chain.blocks.size(); ++i) {
        const auto end = chain.tokens.begin() + static_cast<int64_t>((i + 1) * kBlock);
        ASSERT_EQ(content[chain.blocks[i]], std::pair(version, std::vector(chain.tokens.begin(), end)));
      }
      while (static_cast<int32_t>(chain.blocks.size()) < blocks) {
        const BlockId block = cache.allocate();
        if (block == kNoBlock) break;
        for (const Chain& other : live)
          ASSERT_EQ(std::count(other.blocks.begin(), other.blocks.end(), block), 0);
        const size_t begin = chain.blocks.size() * kBlock;
        const auto end = chain.tokens.begin() + static_cast<int64_t>(begin + kBlock);
        content[block] = {version, std::vector(chain.tokens.begin(), end)};
        const BlockId parent = chain.blocks.empty() ? kNoBlock : chain.blocks.back();
        chain.blocks.push_back(
            cache.insert(version, parent, std::span(chain.tokens).subspan(begin, kBlock), block));
        ASSERT_EQ(chain.blocks.back(), block) << "match had not found it";
      }
      live.push_back(std::move(chain));
    } else {
      const size_t victim = random.below(live.size());
      cache.release(live[victim].blocks);
      live.erase(live.begin() + static_cast<int64_t>(victim));
    }
    if (random.below(500) == 0) {  // a publication; chains of before it are not continued
      ++version;
      cache.forget_cached();
    }
    std::set<BlockId> distinct;
    for (const Chain& chain : live) distinct.insert(chain.blocks.begin(), chain.blocks.end());
    ASSERT_EQ(cache.referenced(), static_cast<int32_t>(distinct.size()));
    ASSERT_LE(cache.referenced() + cache.idle(), cache.total());
  }
  EXPECT_GT(found_blocks, 1000);
  for (Chain& chain : live) cache.release(chain.blocks);
  EXPECT_EQ(cache.available(), 40);
}

}  // namespace
}  // namespace stoker
