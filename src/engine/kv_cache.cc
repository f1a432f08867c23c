#include "engine/kv_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include <fmt/core.h>

#include "base/error.h"

namespace stoker {
namespace {

constexpr int64_t kSlabBytes = 8 << 20;
constexpr size_t kAlignment = 2 << 20;  // of a huge page: attention touches many blocks a step

// Memory for `bytes`, on huge pages where the system has them.
std::byte* take_slab(size_t bytes) {
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) {
    throw resource_error(
        fmt::format("No memory for {} more bytes of KV cache; lower max_cache_bytes.", rounded));
  }
  madvise(memory, rounded, MADV_HUGEPAGE);  // advice: without huge pages everything works as well
  return static_cast<std::byte*>(memory);
}

uint64_t mix(uint64_t x) {  // the finalizer of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t hash_of(int64_t version, uint64_t parent_serial, std::span<const int32_t> tokens) {
  uint64_t hash = mix(static_cast<uint64_t>(version) + 0x9e3779b97f4a7c15u) ^ parent_serial;
  for (int32_t token : tokens) hash = mix(hash + 0x9e3779b97f4a7c15u + static_cast<uint32_t>(token));
  return hash;
}

}  // namespace

void KvCache::FreeMemory::operator()(std::byte* memory) const { std::free(memory); }

int64_t KvCache::block_bytes(const ModelConfig& config, ComputeType type) {
  return cpu::kv_block_bytes(config, type, kBlockPositions);
}

KvCache::KvCache(const ModelConfig& config, int32_t block_count, ComputeType type)
    : block_count_(block_count),
      block_bytes_((block_bytes(config, type) + 63) / 64 * 64),
      slab_blocks_(static_cast<int32_t>(std::max<int64_t>(1, kSlabBytes / block_bytes_))),
      buckets_(std::bit_ceil(static_cast<size_t>(std::max(block_count, 8))), kNoBlock) {
  if (block_count < 1) throw internal_error("A KV cache needs at least one block.");
}

int32_t KvCache::match(int64_t version, std::span<const int32_t> tokens, int32_t max_blocks,
                       std::vector<BlockId>& chain) {
  const size_t before = chain.size();
  while (static_cast<int32_t>(chain.size()) < max_blocks) {
    const uint64_t parent = chain.empty() ? 0 : blocks_[chain.back()].serial;
    if (!chain.empty() && parent == 0) break;
    const std::span<const int32_t> wanted = tokens.subspan(chain.size() * kBlockPositions, kBlockPositions);
    const BlockId found = find(version, parent, wanted, hash_of(version, parent, wanted));
    if (found == kNoBlock) break;
    reference(found);
    chain.push_back(found);
  }
  return static_cast<int32_t>(chain.size() - before);
}

BlockId KvCache::allocate() {
  BlockId id = kNoBlock;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else if (static_cast<int32_t>(blocks_.size()) < block_count_) {
    id = static_cast<BlockId>(blocks_.size());
    if (id % slab_blocks_ == 0) {
      const int32_t count = std::min(slab_blocks_, block_count_ - id);
      slabs_.emplace_back(take_slab(static_cast<size_t>(count * block_bytes_)));
    }
    blocks_.emplace_back();
  } else if (oldest_idle_ != kNoBlock) {
    id = oldest_idle_;
    remove_idle(id);
    uncache(id);
  } else {
    return kNoBlock;
  }
  blocks_[id].references = 1;
  ++referenced_;
  return id;
}

BlockId KvCache::insert(int64_t version, BlockId parent, std::span<const int32_t> tokens, BlockId block) {
  const uint64_t parent_serial = parent == kNoBlock ? 0 : blocks_[parent].serial;
  if (parent != kNoBlock && parent_serial == 0) {
    throw internal_error("A KV block was offered behind a parent that is not cached.");
  }
  const uint64_t hash = hash_of(version, parent_serial, tokens);
  const BlockId found = find(version, parent_serial, tokens, hash);
  if (found != kNoBlock) {
    reference(found);
    release(block);
    return found;
  }
  Block& entry = blocks_[block];
  std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
  entry.version = version;
  entry.parent_serial = parent_serial;
  entry.serial = next_serial_++;
  entry.hash = hash;
  entry.bucket_next = bucket_of(hash);
  bucket_of(hash) = block;
  return block;
}

void KvCache::release(std::vector<BlockId>& chain) {
  while (!chain.empty()) {
    release(chain.back());
    chain.pop_back();
  }
}

void KvCache::forget_cached() {
  while (oldest_idle_ != kNoBlock) {
    const BlockId id = oldest_idle_;
    remove_idle(id);
    free_.push_back(id);
  }
  for (Block& block : blocks_) block.serial = 0;
  std::fill(buckets_.begin(), buckets_.end(), kNoBlock);
}

cpu::KvBlock KvCache::view(BlockId block) const {
  std::byte* slab = slabs_[static_cast<size_t>(block / slab_blocks_)].get();
  return {slab + block % slab_blocks_ * block_bytes_, kBlockPositions};
}

BlockId KvCache::find(int64_t version, uint64_t parent_serial, std::span<const int32_t> tokens,
                      uint64_t hash) const {
  for (BlockId id = buckets_[hash & (buckets_.size() - 1)]; id != kNoBlock; id = blocks_[id].bucket_next) {
    const Block& block = blocks_[id];
    if (block.hash == hash && block.version == version && block.parent_serial == parent_serial &&
        std::equal(tokens.begin(), tokens.end(), block.tokens.begin())) {
      return id;
    }
  }
  return kNoBlock;
}

void KvCache::reference(BlockId id) {
  if (blocks_[id].references++ == 0) {
    remove_idle(id);
    ++referenced_;
  }
}

void KvCache::release(BlockId id) {
  if (--blocks_[id].references > 0) return;
  --referenced_;
  if (blocks_[id].serial != 0) {
    push_idle(id);
  } else {
    free_.push_back(id);
  }
}

void KvCache::uncache(BlockId id) {
  BlockId* link = &bucket_of(blocks_[id].hash);
  while (*link != id) link = &blocks_[*link].bucket_next;
  *link = blocks_[id].bucket_next;
  blocks_[id].serial = 0;
}

void KvCache::push_idle(BlockId id) {
  blocks_[id].older = newest_idle_;
  blocks_[id].newer = kNoBlock;
  (newest_idle_ == kNoBlock ? oldest_idle_ : blocks_[newest_idle_].newer) = id;
  newest_idle_ = id;
  ++idle_;
}

void KvCache::remove_idle(BlockId id) {
  const Block& block = blocks_[id];
  (block.newer == kNoBlock ? newest_idle_ : blocks_[block.newer].older) = block.older;
  (block.older == kNoBlock ? oldest_idle_ : blocks_[block.older].newer) = block.newer;
  --idle_;
}

}  // namespace stoker
