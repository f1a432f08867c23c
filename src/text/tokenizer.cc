#include "text/tokenizer.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_state.h"

namespace stoker {
namespace {

constexpr size_t kLargestFile = size_t{256} << 20;

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerState> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& path) {
  std::filesystem::path file = std::filesystem::is_directory(path) ? path / "tokenizer.json" : path;
  if (!std::filesystem::exists(file)) {
    throw input_error(fmt::format(
        "{} does not exist; name a tokenizer.json or the model directory that holds one.", file.string()));
  }
  std::string what = file.string();
  return from_json(Json::parse(read_file(file, kLargestFile), what), what);
}

std::shared_ptr<const Tokenizer> Tokenizer::from_json(const Json& json, const std::string& what) {
  auto state = std::make_unique<const TokenizerState>(read_tokenizer_json(json, what));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(state)));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  TextPiece piece{text, AddedTokens::kPlain};
  for (const EncodedToken& token : encode_pieces({&piece, 1})) ids.push_back(token.id);
  return ids;
}

std::vector<int32_t> Tokenizer::encode_with_special(std::string_view text) const {
  std::vector<int32_t> ids;
  TextPiece piece{text, AddedTokens::kAll};
  for (const EncodedToken& token : encode_pieces({&piece, 1})) ids.push_back(token.id);
  return ids;
}

std::vector<EncodedToken> Tokenizer::encode_pieces(std::span<const TextPiece> pieces) const {
  std::string joined;
  std::vector<TrustRange> ranges;
  ranges.reserve(pieces.size());
  size_t size = 0;
  for (const TextPiece& piece : pieces) size += piece.text.size();
  if (pieces.size() > 1) joined.reserve(size);
  std::vector<EncodedToken> tokens;
  tokens.reserve(size / 3 + 8);  // by the usual bytes a token
  size = 0;
  for (const TextPiece& piece : pieces) {
    if (piece.text.empty()) continue;
    ranges.push_back({size, size + piece.text.size(), piece.added_tokens});
    size += piece.text.size();
    if (pieces.size() > 1) joined += piece.text;
  }
  std::string_view text = pieces.size() == 1 ? pieces[0].text : std::string_view(joined);

  BpeModel::Workspace workspace;
  std::vector<BpeModel::Piece> word_pieces;
  word_pieces.reserve(64);
  for (const TextSegment& segment : state_->added.split(text, ranges)) {
    if (segment.token != nullptr) {
      tokens.push_back({segment.token->id, segment.begin, segment.end});
      continue;
    }
    for (size_t begin = segment.begin; begin < segment.end;) {
      std::string_view rest = text.substr(begin, segment.end - begin);
      size_t length = state_->split_words ? gpt2_word_length(rest) : rest.size();
      word_pieces.clear();
      state_->bpe.encode(rest.substr(0, length), workspace, word_pieces);
      for (const BpeModel::Piece& piece : word_pieces) {
        tokens.push_back({piece.id, begin, begin + piece.size});
        begin += piece.size;
      }
    }
  }
  return tokens;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool keep_special) const {
  std::string bytes;
  bytes.reserve(ids.size() * 4);
  for (int32_t id : ids) {
    if (keep_special || !is_special(id)) bytes += token_bytes(id);
  }
  return bytes;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  return has_token(id) ? std::string_view(state_->tokens[id].bytes) : std::string_view();
}

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
