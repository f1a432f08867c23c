#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "text/tokenizer.h"

namespace stoker {

// A request on its way through one replica after the other: passes on what they accept, and says what is left
// to do when one is lost, and how the whole ended.
class ReplicaProgress final : public TokenSink {
 public:
  // `tokenizer` may be null; it and `sink` must outlive the object.
  ReplicaProgress(GenerateRequest request, TokenSink& sink, const Tokenizer* tokenizer)
      : request_(std::move(request)), sink_(sink), tokenizer_(tokenizer) {}

  void started() override;
  void accept(const SampledToken& token) override;

  const GenerateRequest& request() const { return request_; }  // as it was asked
  size_t accepted() const { return accepted_.size(); }

  // What is to be asked of the next replica.
  GenerateRequest rest();
  // The end of the whole, given that of the last part.
  Completion whole(Completion last) const;
  // The end of the whole where the last replica failed, if the accepted tokens show that nothing is left to
  // do: they hold a stop token, a stop string or all that were allowed.
  std::optional<Completion> complete(const Failure& failure) const;

 private:
  std::optional<StopReason> ended(std::string& text) const;

  GenerateRequest request_;
  TokenSink& sink_;
  const Tokenizer* tokenizer_;
  std::vector<int32_t> accepted_;
  bool started_ = false;
  size_t asked_ = 0;  // of the accepted ones, when the last part was asked for
};

}  // namespace stoker
