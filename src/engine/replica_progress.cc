#include "engine/replica_progress.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/stop_text.h"

namespace stoker {

void ReplicaProgress::started() {
  if (!std::exchange(started_, true)) sink_.started();
}

void ReplicaProgress::accept(const SampledToken& token) {
  accepted_.push_back(token.id);
  sink_.accept(token);
}

GenerateRequest ReplicaProgress::rest() {
  GenerateRequest rest = request_;
  rest.tokens.insert(rest.tokens.end(), accepted_.begin(), accepted_.end());
  rest.first_position += accepted_.size();
  rest.stop.max_tokens -= static_cast<int32_t>(accepted_.size());
  asked_ = accepted_.size();
  return rest;
}

// Why the accepted tokens are a whole answer, by the rules of one engine, and their text; empty: they are
// not.
std::optional<StopReason> ReplicaProgress::ended(std::string& text) const {
  std::string earlier;
  if (tokenizer_ != nullptr) {
    const std::vector<int32_t>& context = request_.tokens;
    const auto turn = std::min<size_t>(request_.first_position, context.size());
    earlier = tokenizer_->decode(std::span<const int32_t>(context).last(turn));
  }
  StopText stop(request_.stop.strings, std::move(earlier));
  std::optional<StopReason> reason;
  for (const int32_t id : accepted_) {
    const std::vector<int32_t>& stop_tokens = request_.stop.tokens;
    if (std::find(stop_tokens.begin(), stop_tokens.end(), id) != stop_tokens.end()) {
      reason = StopReason::kStopToken;
    } else if (tokenizer_ != nullptr && stop.append(tokenizer_->token_bytes(id))) {
      reason = StopReason::kStopString;
    }
    if (reason) break;
  }
  text = stop.text();
  if (!reason && static_cast<int64_t>(accepted_.size()) >= request_.stop.max_tokens) {
    reason = StopReason::kLength;
  }
  return reason;
}

Completion ReplicaProgress::whole(Completion last) const {
  if (asked_ == 0) return last;
  std::string text;
  ended(text);
  if (tokenizer_ != nullptr) last.text = std::move(text);
  last.sampled_tokens = static_cast<int32_t>(accepted_.size());
  last.cached_tokens = std::min(last.cached_tokens, static_cast<int32_t>(request_.tokens.size()));
  return last;
}

std::optional<Completion> ReplicaProgress::complete(const Failure& failure) const {
  if (accepted_.empty()) return std::nullopt;
  Completion completion;
  std::optional<StopReason> reason = ended(completion.text);
  // The tokens of an earlier part have filled the context.
  if (!reason && asked_ > 0 && asked_ == accepted_.size() && failure.name() == "limit.context_length") {
    reason = StopReason::kLength;
  }
  if (!reason) return std::nullopt;
  completion.stop_reason = *reason;
  completion.sampled_tokens = static_cast<int32_t>(accepted_.size());
  return completion;
}

}  // namespace stoker
