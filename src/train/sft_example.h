#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/batch.h"
#include "environment/conversation_file.h"
#include "environment/registry.h"
#include "text/renderer.h"

namespace stoker {

// A conversation as supervised training sees it: tokens, and for each whether its prediction is trained. The
// first token never is: nothing stands before it.
struct SftExample {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> trained;  // same length

  int64_t trained_count() const;
};

// Renders a whole conversation; what the assistant wrote is trained, its end-of-turn token included. `what`
// names the conversation in errors: one that the template cannot express or without an assistant token throws
// Error(kInput).
SftExample make_sft_example(const Renderer& renderer, std::span<const Message> messages,
                            std::span<const ToolSchema> tools, const std::string& what);

// The stream of examples, a pure function of the index, so that a resumed run sees the same ones.
class SftExampleSource {
 public:
  virtual ~SftExampleSource() = default;
  virtual SftExample example(uint64_t index) const = 0;
};

// Demonstrations of an environment kind, rendered with the tools that it offers. Throws Error(kInput) when
// the kind has none. References must outlive it.
std::unique_ptr<SftExampleSource> demonstration_examples(const EnvironmentKind& kind,
                                                         const Renderer& renderer,
                                                         std::vector<ToolSchema> tools, uint64_t seed);
// Conversations of a file, in epochs, each in an order of its own by the seed. The renderer must outlive it.
std::unique_ptr<SftExampleSource> conversation_examples(ConversationFile conversations,
                                                        const Renderer& renderer, uint64_t seed);

// A forward pass of whole examples, packed side by side.
struct SftMicroBatch {
  Batch batch;
  int64_t tokens = 0;  // of all segments
};

// Cuts the examples in order into micro-batches of at most `micro_batch_tokens` tokens, never within one.
std::vector<SftMicroBatch> pack_sft_examples(std::span<const SftExample> examples,
                                             int64_t micro_batch_tokens);

}  // namespace stoker
