#include "text/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "text/tokenizer_part.h"

namespace stoker {
namespace {

// How far below the lowest score an unknown character lies (kUnkPenalty in SentencePiece).
constexpr double kUnknownPenalty = 10.0;

size_t edge_slot(uint64_t key, size_t size) { return (key * 0x9E3779B97F4A7C15u >> 20) & (size - 1); }

}  // namespace

UnigramModel::UnigramModel(const std::vector<Token>& tokens, std::optional<int32_t> unknown,
                           std::optional<std::array<int32_t, 256>> byte_ids, bool single)
    : single_(single), unknown_(unknown), byte_ids_(byte_ids) {
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t id = 0; id < tokens.size(); ++id) {
    lowest = std::min(lowest, tokens[id].score);
    if (tokens[id].matches && !tokens[id].text.empty()) {
      insert(tokens[id].text, static_cast<int32_t>(id), tokens[id].score);
    }
  }
  unknown_score_ = sum(lowest, -kUnknownPenalty);
}

void UnigramModel::insert(std::string_view text, int32_t id, double score) {
  uint32_t node = 0;
  for (char character : text) {
    auto byte = static_cast<uint8_t>(character);
    uint32_t next = child(node, byte);
    if (next == 0) {
      if (nodes_.size() * 2 > edges_.size()) grow_edges();
      next = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      uint64_t key = (uint64_t{node} << 8) | byte;
      size_t slot = edge_slot(key, edges_.size());
      while (edges_[slot].node != 0) slot = (slot + 1) & (edges_.size() - 1);
      edges_[slot] = {key, next};
    }
    node = next;
  }
  nodes_[node] = {id, score};
}

void UnigramModel::grow_edges() {
  std::vector<Edge> larger(edges_.size() * 2);
  for (const Edge& edge : edges_) {
    if (edge.node == 0) continue;
    size_t slot = edge_slot(edge.key, larger.size());
    while (larger[slot].node != 0) slot = (slot + 1) & (larger.size() - 1);
    larger[slot] = edge;
  }
  edges_ = std::move(larger);
}

uint32_t UnigramModel::child(uint32_t node, uint8_t byte) const {
  uint64_t key = (uint64_t{node} << 8) | byte;
  size_t slot = edge_slot(key, edges_.size());
  while (edges_[slot].node != 0 && edges_[slot].key != key) slot = (slot + 1) & (edges_.size() - 1);
  return edges_[slot].node;
}

const UnigramModel::Node* UnigramModel::find(std::string_view text) const {
  uint32_t node = 0;
  for (char character : text) {
    node = child(node, static_cast<uint8_t>(character));
    if (node == 0) return nullptr;
  }
  return nodes_[node].id == kNone ? nullptr : &nodes_[node];
}

std::unique_ptr<TokenModel::Scratch> UnigramModel::make_scratch() const {
  return std::make_unique<UnigramScratch>();
}

// Offers every token that starts at `begin` to the prefix that it ends.
void UnigramModel::relax(std::string_view word, size_t begin, std::vector<Best>& best) const {
  double score_here = best[begin].score;
  size_t character = utf8_step(word.substr(begin)).size;
  bool has_single = false;
  auto offer = [&](size_t end, int32_t id, double score) {
    Best& target = best[end];
    if (target.id != kNone && score <= target.score) return;
    target = {score, id, static_cast<uint32_t>(begin)};
  };
  uint32_t node = 0;
  for (size_t end = begin; end < word.size(); ++end) {
    node = child(node, static_cast<uint8_t>(word[end]));
    if (node == 0) break;
    if (nodes_[node].id == kNone) continue;
    offer(end + 1, nodes_[node].id, sum(score_here, nodes_[node].score));
    has_single = has_single || end + 1 - begin == character;
  }
  if (!has_single) offer(begin + character, kUnknown, sum(score_here, unknown_score_));
}

void UnigramModel::encode(std::string_view word, Scratch& scratch, std::vector<TokenPiece>& out) const {
  auto& [best, reversed] = static_cast<UnigramScratch&>(scratch);
  best.assign(word.size() + 1, Best{});
  for (size_t begin = 0; begin < word.size(); begin += utf8_step(word.substr(begin)).size) {
    relax(word, begin, best);
  }
  reversed.clear();
  for (size_t end = word.size(); end > 0; end = best[end].begin) {
    auto size = static_cast<uint32_t>(end - best[end].begin);
    bool fused = best[end].id == kUnknown && !reversed.empty() && reversed.back().id == kUnknown;
    if (fused) {
      reversed.back().size += size;
    } else {
      reversed.push_back({best[end].id, size});
    }
  }
  size_t begin = 0;
  for (auto piece = reversed.rbegin(); piece != reversed.rend(); ++piece) {
    if (piece->id == kUnknown) {
      append_unknown(word.substr(begin, piece->size), out);
    } else {
      out.push_back(*piece);
    }
    begin += piece->size;
  }
}

void UnigramModel::append_unknown(std::string_view text, std::vector<TokenPiece>& out) const {
  if (const Node* whole = find(text)) {  // neighbours that are a token together
    out.push_back({whole->id, static_cast<uint32_t>(text.size())});
  } else if (byte_ids_) {
    for (char byte : text) out.push_back({(*byte_ids_)[static_cast<uint8_t>(byte)], 1});
  } else if (unknown_) {
    out.push_back({*unknown_, static_cast<uint32_t>(text.size())});
  }
}

namespace {

// Reads the member "model" of the type Unigram.
class UnigramReader {
 public:
  UnigramReader(const TokenizerPart& part, const StringToId& hidden) : part_(part), hidden_(hidden) {}

  ModelVocabulary read() {
    read_vocabulary();
    std::optional<int32_t> unknown;
    if (part_.has("unk_id")) {
      int64_t id = part_.integer("unk_id", -1);
      if (id < 0 || id >= static_cast<int64_t>(tokens_.size())) {
        throw part_.member("unk_id").bad(fmt::format("is {}, no id of model.vocab", id));
      }
      unknown = static_cast<int32_t>(id);
      tokens_[id].matches = false;
    }
    std::optional<std::array<int32_t, 256>> bytes;
    if (part_.flag("byte_fallback", false)) bytes = read_byte_tokens();
    if (!unknown && !bytes)
      throw part_.bad("has neither byte tokens nor an unk_id, so that text would be lost");
    // "single_precision" is Stoker's own, for vocabularies out of a SentencePiece file.
    bool single = part_.flag("single_precision", false);
    result_.model = std::make_unique<UnigramModel>(tokens_, unknown, bytes, single);
    return std::move(result_);
  }

 private:
  void read_vocabulary() {
    for (const TokenizerPart& entry : part_.elements("vocab")) {
      const Json& pair = entry.json();
      if (!pair.is_array() || pair.as_array().size() != 2 || !pair.as_array()[0].is_string() ||
          !pair.as_array()[1].is_number()) {
        throw entry.bad("is no pair of a name and a score");
      }
      const std::string& name = pair.as_array()[0].as_string();
      auto id = static_cast<int32_t>(tokens_.size());
      if (!result_.ids.emplace(name, id).second) throw entry.bad("names a token that occurs before");
      tokens_.push_back({name, pair.as_array()[1].as_double(), !hidden_.contains(name)});
      result_.names.push_back(name);
      result_.present.push_back(true);
    }
    if (tokens_.empty()) throw part_.member("vocab").bad("is empty");
  }

  std::array<int32_t, 256> read_byte_tokens() {
    std::array<int32_t, 256> ids{};
    for (int byte = 0; byte < 256; ++byte) {
      auto found = result_.ids.find(fmt::format("<0x{:02X}>", byte));
      if (found == result_.ids.end()) {
        throw part_.member("byte_fallback")
            .bad(fmt::format("is true, but model.vocab has no '<0x{:02X}>'", byte));
      }
      ids[byte] = found->second;
      tokens_[found->second].matches = false;
    }
    return ids;
  }

  const TokenizerPart& part_;
  const StringToId& hidden_;
  std::vector<UnigramModel::Token> tokens_;
  ModelVocabulary result_;
};

}  // namespace

ModelVocabulary read_unigram_model(const TokenizerPart& part, const StringToId& hidden) {
  return UnigramReader(part, hidden).read();
}

}  // namespace stoker
