#include "train/sft_example.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "environment/epoch_order.h"
#include "train/forest_builder.h"

namespace stoker {
namespace {

class DemonstrationExamples final : public SftExampleSource {
 public:
  DemonstrationExamples(const EnvironmentKind& kind, const Renderer& renderer, std::vector<ToolSchema> tools,
                        uint64_t seed)
      : kind_(kind), renderer_(renderer), tools_(std::move(tools)), seed_(seed) {
    if (!kind_.demonstration(0, seed_)) {
      throw input_error(
          "This environment has no demonstrations of its own: name a file of conversations for supervised "
          "training.");
    }
  }
  SftExample example(uint64_t index) const override {
    std::optional<Demonstration> demonstration = kind_.demonstration(index, seed_);
    if (!demonstration) throw input_error(fmt::format("The environment has no demonstration {}.", index));
    return make_sft_example(renderer_, demonstration->messages, tools_,
                            fmt::format("Demonstration {}", index));
  }

 private:
  const EnvironmentKind& kind_;
  const Renderer& renderer_;
  std::vector<ToolSchema> tools_;
  uint64_t seed_;
};

class ConversationExamples final : public SftExampleSource {
 public:
  ConversationExamples(ConversationFile conversations, const Renderer& renderer, uint64_t seed)
      : conversations_(std::move(conversations)), order_(conversations_.size(), seed), renderer_(renderer) {}
  SftExample example(uint64_t index) const override {
    uint64_t row = order_.row(index);
    return make_sft_example(renderer_, conversations_.conversation(row).messages, {},
                            fmt::format("Conversation {} of the file", row + 1));
  }

 private:
  ConversationFile conversations_;
  EpochOrder order_;
  const Renderer& renderer_;
};

}  // namespace

int64_t SftExample::trained_count() const {
  return std::ranges::count_if(trained, [](uint8_t flag) { return flag != 0; });
}

SftExample make_sft_example(const Renderer& renderer, std::span<const Message> messages,
                            std::span<const ToolSchema> tools, const std::string& what) {
  Result<RenderedTokens> rendered = renderer.render(messages, tools, false);
  if (!rendered)
    throw input_error(fmt::format("{} cannot be rendered: {}", what, rendered.failure().message));
  SftExample example{.tokens = std::move(rendered->ids)};
  for (Author author : rendered->authors) example.trained.push_back(author == Author::kAssistant ? 1 : 0);
  if (!example.trained.empty()) example.trained[0] = 0;
  // What follows the last trained token teaches nothing.
  while (!example.trained.empty() && example.trained.back() == 0) {
    example.trained.pop_back();
    example.tokens.pop_back();
  }
  if (example.tokens.empty()) {
    throw input_error(fmt::format("{} has no assistant message: there is nothing to train.", what));
  }
  return example;
}

std::unique_ptr<SftExampleSource> demonstration_examples(const EnvironmentKind& kind,
                                                         const Renderer& renderer,
                                                         std::vector<ToolSchema> tools, uint64_t seed) {
  return std::make_unique<DemonstrationExamples>(kind, renderer, std::move(tools), seed);
}

std::unique_ptr<SftExampleSource> conversation_examples(ConversationFile conversations,
                                                        const Renderer& renderer, uint64_t seed) {
  return std::make_unique<ConversationExamples>(std::move(conversations), renderer, seed);
}

std::vector<SftMicroBatch> pack_sft_examples(std::span<const SftExample> examples,
                                             int64_t micro_batch_tokens) {
  std::vector<SftMicroBatch> batches;
  std::optional<ForestBuilder> forest;
  for (size_t row = 0; row < examples.size(); ++row) {
    const SftExample& example = examples[row];
    auto length = static_cast<int32_t>(example.tokens.size());
    // One segment an example: the last token is only asked for, and rows of different groups share nothing.
    int64_t cost = length - 1;
    if (batches.empty() || batches.back().tokens + cost > micro_batch_tokens) {
      batches.emplace_back();
      forest.emplace(&batches.back().batch);
    }
    forest->add_row(example.tokens, length - 1, length, row);
    for (int32_t i = 1; i < length; ++i) {
      if (example.trained[i] != 0) forest->predict(i, 1.0f);
    }
    batches.back().tokens += cost;
  }
  return batches;
}

}  // namespace stoker
