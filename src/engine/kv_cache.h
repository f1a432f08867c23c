#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/cpu/decoder.h"

namespace stoker {

using BlockId = int32_t;
constexpr BlockId kNoBlock = -1;

// Keys and values of all sequences, in blocks of kBlockPositions positions. A sequence's context is a chain
// of blocks; a full block may be shared: it is found again by the version of the weights, its parent in the
// chain and its tokens (compared for real, not by hash alone), so that the samples of a group share their
// prompt and a next turn its history. Nothing is ever copied.
//
// A block is free; or referenced by chains; or idle: unreferenced, kept for whoever asks for its tokens next,
// until the least recently released idle one is needed. A cached block's parent is never evicted before it,
// because chains are released from their last block on.
//
// Not thread-safe; the memory behind views may be used by another thread while its block is referenced.
class KvCache {
 public:
  static constexpr int32_t kBlockPositions = 16;

  // Memory is taken from the system as blocks are first used. `block_count` >= 1.
  KvCache(const ModelConfig& config, int32_t block_count, ComputeType type);

  // Bytes of one block of a model.
  static int64_t block_bytes(const ModelConfig& config, ComputeType type);

  // Extends `chain`, whose blocks hold the first tokens of `tokens` and are cached, by the cached blocks that
  // follow, up to `max_blocks` in all; each gets a reference. Returns how many were added.
  int32_t match(int64_t version, std::span<const int32_t> tokens, int32_t max_blocks,
                std::vector<BlockId>& chain);

  // An empty block with one reference; kNoBlock when every block is referenced.
  BlockId allocate();

  // Offers the full, referenced `block` to others: it holds `tokens` behind `parent` (kNoBlock: at the
  // start), computed by `version` alone. Returns the block to use from here on: when another chain has
  // offered the same content before, that one (the reference moves), else `block`.
  BlockId insert(int64_t version, BlockId parent, std::span<const int32_t> tokens, BlockId block);

  // Gives back the references of a chain and empties it.
  void release(std::vector<BlockId>& chain);

  // Nothing that is cached will be found any more; chains keep the blocks they hold.
  void forget_cached();

  cpu::KvBlock view(BlockId block) const;

  int32_t total() const { return block_count_; }
  int32_t referenced() const { return referenced_; }
  int32_t idle() const { return idle_; }
  int32_t available() const { return block_count_ - referenced_; }  // what allocate() can still give

 private:
  struct Block {
    std::array<int32_t, kBlockPositions> tokens;
    int64_t version = 0;
    uint64_t parent_serial = 0;
    uint64_t serial = 0;  // names this content for children; 0: not cached
    uint64_t hash = 0;
    int32_t references = 0;
    BlockId bucket_next = kNoBlock;
    BlockId newer = kNoBlock;  // neighbours in the list of idle blocks
    BlockId older = kNoBlock;
  };

  BlockId find(int64_t version, uint64_t parent_serial, std::span<const int32_t> tokens, uint64_t hash) const;
  BlockId& bucket_of(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  void reference(BlockId id);
  void release(BlockId id);
  void uncache(BlockId id);
  void push_idle(BlockId id);
  void remove_idle(BlockId id);

  struct FreeMemory {
    void operator()(std::byte* memory) const;
  };

  int32_t block_count_;
  int64_t block_bytes_;  // on cache lines
  int32_t slab_blocks_;
  std::vector<std::unique_ptr<std::byte, FreeMemory>> slabs_;
  std::vector<Block> blocks_;     // those used so far
  std::vector<BlockId> free_;     // used before, free again
  std::vector<BlockId> buckets_;  // heads of hash chains; a power of two
  BlockId newest_idle_ = kNoBlock;
  BlockId oldest_idle_ = kNoBlock;
  int32_t referenced_ = 0;
  int32_t idle_ = 0;
  uint64_t next_serial_ = 1;
};

}  // namespace stoker
