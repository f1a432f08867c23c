#pragma once

#include <array>
#include <cstdint>

namespace stoker {

// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
// 3", section 4). A draw is a pure function of its key and counter: it depends on no other draw, thread or
// order.

// What a stream is for; part of the key, so that no two uses ever share a draw.
enum class RandomPurpose : uint32_t {
  kTrain = 1,        // sampling tokens of training episodes
  kEvaluate = 2,     // sampling tokens of evaluation episodes
  kInit = 3,         // fresh weights
  kShuffle = 4,      // order of tasks
  kData = 5,         // generated tasks and demonstrations
  kSchedule = 6,     // the simulated executor's choice among ready work
  kEnvironment = 7,  // an environment's own randomness
};

// Names one stream (DESIGN section 6). Every field takes part in the key. `position` of a draw within the
// stream is given at the draw: the index of the token within the turn.
struct StreamKey {
  uint64_t run_seed = 0;
  RandomPurpose purpose = RandomPurpose::kTrain;
  uint64_t task_ordinal = 0;  // position of the task in the task stream
  uint32_t sample = 0;        // index within the group
  uint32_t attempt = 0;       // retries of one episode draw anew
  uint32_t turn = 0;

  bool operator==(const StreamKey&) const = default;
};

// The raw block function: 4 x 32 random bits for a counter under a key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// 4 x 32 random bits at `position` of the stream.
std::array<uint32_t, 4> random_bits(const StreamKey& stream, uint64_t position);

// Uniform in [0, 1) with 53 bits at `position` of the stream.
double random_uniform(const StreamKey& stream, uint64_t position);

// A sequential view of one stream, for code that draws in a fixed order (initial weights, shuffles, generated
// tasks). Not for sampling tokens, where each token's position is its own.
class RandomStream {
 public:
  explicit RandomStream(const StreamKey& key) : key_(key) {}

  uint64_t bits();
  double uniform();                // [0, 1)
  uint64_t below(uint64_t bound);  // [0, bound), unbiased; bound > 0
  double normal();                 // mean 0, variance 1 (Box-Muller; one value per two draws)

 private:
  StreamKey key_;
  uint64_t position_ = 0;
};

}  // namespace stoker
