#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/tokenizer_state.h"

namespace stoker {
namespace {

// One call of encode.
class Encoding {
 public:
  Encoding(const TokenizerState& state, bool offsets)
      : state_(state), offsets_(offsets), scratch_(state.scratches.take(*state.model)) {}
  ~Encoding() { state_.scratches.give_back(std::move(scratch_)); }
  Encoding(const Encoding&) = delete;
  Encoding& operator=(const Encoding&) = delete;

  // Room for the input of `run`.
  EncodeScratch& scratch() { return *scratch_; }

  // `ranges` tile the text.
  void run(std::string_view text, std::span<const TrustRange> ranges);

  std::vector<int32_t> ids;
  std::vector<EncodedToken> tokens;  // instead of ids where offsets are wanted

 private:
  // Where the bytes of the text at hand come from: a stretch of the original, perhaps normalized.
  struct Source {
    size_t origin = 0;
    const AlignedText* normalized = nullptr;  // null: as it is
    size_t shift = 0;                         // first byte of the text at hand in `normalized`

    size_t begin_of(size_t byte) const {
      return origin + (normalized == nullptr ? byte : normalized->begin_of(shift + byte));
    }
    size_t end_of(size_t last) const {
      return origin + (normalized == nullptr ? last + 1 : normalized->end_of(shift + last));
    }
  };

  std::span<const TrustRange> slice(std::span<const TrustRange> ranges, size_t begin, size_t end);
  void segment(std::string_view text, size_t origin, std::span<const TrustRange> ranges);
  void normalized_segment(std::string_view text, const Source& source, std::span<const TrustRange> ranges);
  void words(std::string_view text, const Source& source);
  void add_pieces(const TextRange& word, const Source& source);
  void add(int32_t id, size_t begin, size_t end) {
    if (offsets_) {
      tokens.push_back({id, begin, end});
    } else {
      ids.push_back(id);
    }
  }

  const TokenizerState& state_;
  bool offsets_;
  bool tracked_ = false;
  std::unique_ptr<EncodeScratch> scratch_;
};

// `ranges` of an original text as ranges of the normalized one.
std::vector<TrustRange> normalized_ranges(const AlignedText& text, std::span<const TrustRange> ranges) {
  if (ranges.size() == 1) return {{0, text.text.size(), ranges[0].added_tokens}};
  std::vector<TrustRange> result;
  size_t at = 0;
  for (const TrustRange& range : ranges) {
    size_t begin = at;
    while (at < text.text.size() && text.begin_of(at) < range.end) ++at;
    if (&range == &ranges.back()) at = text.text.size();
    if (begin < at) result.push_back({begin, at, range.added_tokens});
  }
  return result;
}

// The parts of `ranges` that lie in [begin, end), counted from begin, as far as they are still looked at.
std::span<const TrustRange> Encoding::slice(std::span<const TrustRange> ranges, size_t begin, size_t end) {
  if (ranges.size() == 1 || !state_.added.has(AddedTokenFinder::Pass::kNormalized)) return ranges.first(1);
  std::vector<TrustRange>& result = scratch_->part;
  result.clear();
  auto range =
      std::partition_point(ranges.begin(), ranges.end(), [&](const TrustRange& r) { return r.end <= begin; });
  for (; range != ranges.end() && range->begin < end; ++range) {
    result.push_back(
        {std::max(range->begin, begin) - begin, std::min(range->end, end) - begin, range->added_tokens});
  }
  return result;
}

void Encoding::run(std::string_view text, std::span<const TrustRange> ranges) {
  if (text.size() > UINT32_MAX)
    throw input_error("A text of more than 4 GiB is not encoded at once; cut it.");
  tracked_ = offsets_ || ranges.size() > 1;
  (offsets_ ? tokens.reserve(text.size() / 3 + 8) : ids.reserve(text.size() / 3 + 8));
  if (!state_.added.has(AddedTokenFinder::Pass::kRaw)) {
    if (!text.empty()) segment(text, 0, ranges);
    return;
  }
  std::vector<TextSegment>& segments = scratch_->raw;
  segments.clear();
  state_.added.split(AddedTokenFinder::Pass::kRaw, text, ranges, segments);
  for (const TextSegment& part : segments) {
    if (part.token != nullptr) {
      add(part.token->id, part.begin, part.end);
    } else {
      segment(text.substr(part.begin, part.end - part.begin), part.begin,
              slice(ranges, part.begin, part.end));
    }
  }
}

void Encoding::segment(std::string_view text, size_t origin, std::span<const TrustRange> ranges) {
  if (state_.normalizer == nullptr || state_.normalizer->keeps(text)) {
    TrustRange whole{0, text.size(), ranges[0].added_tokens};
    normalized_segment(text, {origin}, ranges.size() == 1 ? std::span<const TrustRange>{&whole, 1} : ranges);
    return;
  }
  AlignedText& normalized = scratch_->normalized;
  normalized.tracked = tracked_;
  normalized.assign(text);
  state_.normalizer->normalize(normalized);
  normalized_segment(normalized.text, {origin, tracked_ ? &normalized : nullptr},
                     normalized_ranges(normalized, ranges));
}

void Encoding::normalized_segment(std::string_view text, const Source& source,
                                  std::span<const TrustRange> ranges) {
  if (text.empty()) return;
  if (!state_.added.has(AddedTokenFinder::Pass::kNormalized)) return words(text, source);
  std::vector<TextSegment>& segments = scratch_->normal;
  segments.clear();
  state_.added.split(AddedTokenFinder::Pass::kNormalized, text, ranges, segments);
  for (const TextSegment& part : segments) {
    if (part.token != nullptr) {
      add(part.token->id, source.begin_of(part.begin), source.end_of(part.end - 1));
      continue;
    }
    Source inner = source;
    (source.normalized == nullptr ? inner.origin : inner.shift) += part.begin;
    words(text.substr(part.begin, part.end - part.begin), inner);
  }
}

void Encoding::words(std::string_view text, const Source& source) {
  SplitText& split = scratch_->split;
  split.assign(text, source.origin + source.shift == 0, tracked_);
  state_.pretokenizer.apply(split);
  std::vector<TokenPiece>& pieces = scratch_->pieces;
  pieces.clear();
  for (const TextRange& word : split.words) {
    state_.model->encode(split.text.substr(word.begin, word.end - word.begin), *scratch_->model, pieces);
    if (offsets_) {
      add_pieces(word, source);
      pieces.clear();
    }
  }
  for (const TokenPiece& piece : pieces) ids.push_back(piece.id);
}

void Encoding::add_pieces(const TextRange& word, const Source& source) {
  const SplitText& split = scratch_->split;
  size_t at = word.begin;
  for (const TokenPiece& piece : scratch_->pieces) {
    size_t begin = at;
    size_t end = at + piece.size;  // in the text at hand
    at = end;
    if (split.is_rewritten) {
      begin = split.rewritten.begin_of(begin);
      end = split.rewritten.end_of(end - 1);
    }
    size_t from = source.begin_of(begin);
    tokens.push_back({piece.id, from, end > begin ? source.end_of(end - 1) : from});
  }
}

}  // namespace

std::unique_ptr<EncodeScratch> ScratchPool::take(const TokenModel& model) {
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<EncodeScratch> scratch = std::move(free_.back());
      free_.pop_back();
      return scratch;
    }
  }
  auto scratch = std::make_unique<EncodeScratch>();
  scratch->model = model.make_scratch();
  return scratch;
}

void ScratchPool::give_back(std::unique_ptr<EncodeScratch> scratch) {
  std::lock_guard lock(mutex_);
  if (free_.size() < kKept) free_.push_back(std::move(scratch));
}

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerState> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::from_json(const Json& json, const std::string& what) {
  return std::shared_ptr<const Tokenizer>(new Tokenizer(read_tokenizer_json(json, what)));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  Encoding encoding(*state_, false);
  TrustRange range{0, text.size(), AddedTokens::kPlain};
  encoding.run(text, {&range, 1});
  return std::move(encoding.ids);
}

std::vector<int32_t> Tokenizer::encode_with_special(std::string_view text) const {
  Encoding encoding(*state_, false);
  TrustRange range{0, text.size(), AddedTokens::kAll};
  encoding.run(text, {&range, 1});
  return std::move(encoding.ids);
}

std::vector<EncodedToken> Tokenizer::encode_pieces(std::span<const TextPiece> pieces) const {
  Encoding encoding(*state_, true);
  std::string& joined = encoding.scratch().joined;
  std::vector<TrustRange>& ranges = encoding.scratch().ranges;
  joined.clear();
  ranges.clear();
  for (const TextPiece& piece : pieces) {
    if (piece.text.empty()) continue;
    ranges.push_back({joined.size(), joined.size() + piece.text.size(), piece.added_tokens});
    joined += piece.text;
  }
  if (!joined.empty()) encoding.run(joined, ranges);
  return std::move(encoding.tokens);
}

std::vector<EncodedToken> Tokenizer::encode_ranges(std::string_view text,
                                                   std::span<const TrustRange> ranges) const {
  Encoding encoding(*state_, true);
  if (!text.empty()) encoding.run(text, ranges);
  return std::move(encoding.tokens);
}

const PostProcessor& Tokenizer::post_processor() const { return state_->post_processor; }

std::string Tokenizer::decode(std::span<const int32_t> ids, bool keep_special) const {
  std::string bytes;
  bytes.reserve(ids.size() * 4);
  bool first = true;
  for (int32_t id : ids) {
    if (!has_token(id)) continue;
    const TokenizerState::Token& token = state_->tokens[id];
    if (!keep_special && token.special) continue;
    bytes += first ? first_token_bytes(id) : std::string_view(token.bytes);
    first = false;
  }
  size_t dropped = 0;
  while (dropped < state_->dropped_leading_blanks && dropped < bytes.size() && bytes[dropped] == ' ')
    ++dropped;
  bytes.erase(0, dropped);
  return bytes;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  return has_token(id) ? std::string_view(state_->tokens[id].bytes) : std::string_view();
}

std::string_view Tokenizer::first_token_bytes(int32_t id) const {
  auto found = state_->first_bytes.find(id);
  return found == state_->first_bytes.end() ? token_bytes(id) : std::string_view(found->second);
}

size_t Tokenizer::dropped_leading_blanks() const { return state_->dropped_leading_blanks; }

std::optional<int32_t> Tokenizer::token_to_id(std::string_view name) const {
  auto found = state_->ids.find(name);
  if (found == state_->ids.end()) return std::nullopt;
  return found->second;
}

int32_t Tokenizer::require_token(std::string_view name) const {
  std::optional<int32_t> id = token_to_id(name);
  if (!id) {
    throw input_error(
        fmt::format("{} has no token '{}', which the chat template needs; use a model whose tokenizer "
                    "has it, or make one with 'stoker init'.",
                    state_->what, name));
  }
  return *id;
}

int32_t Tokenizer::vocabulary_size() const { return static_cast<int32_t>(state_->tokens.size()); }

bool Tokenizer::has_token(int32_t id) const {
  return id >= 0 && id < vocabulary_size() && state_->tokens[id].present;
}

bool Tokenizer::is_special(int32_t id) const { return has_token(id) && state_->tokens[id].special; }
bool Tokenizer::is_control(int32_t id) const { return has_token(id) && state_->tokens[id].control; }

}  // namespace stoker
