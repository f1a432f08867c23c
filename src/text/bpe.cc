#include "text/bpe.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace stoker {
namespace {

constexpr size_t kShortWord = 48;  // symbols; longer words merge by a heap

struct Candidate {
  uint32_t rank;
  int32_t position;  // symbol on the left
  int32_t merged;
};

// Orders a max-heap so that the lowest rank, then the leftmost position, comes first.
bool comes_later(const Candidate& a, const Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

struct BpeModel::Buffers : TokenModel::Scratch {
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  WordCache cache;
};

BpeModel::BpeModel(BpeDefinition definition)
    : definition_(std::move(definition)), merges_(definition_.merges.size()) {
  const auto size = static_cast<int32_t>(definition_.tokens.size());
  auto check = [&](int32_t id) {
    if (id < 0 || id >= size) throw internal_error("a BPE definition names an id without a token");
  };
  uint32_t rank = 0;
  for (const BpeDefinition::Merge& merge : definition_.merges) {
    for (int32_t id : {merge.left, merge.right, merge.merged}) check(id);
    merges_.set(merge.left, merge.right, {rank++, merge.merged});
    cuts_.add_token(definition_.tokens[merge.merged]);
  }
  byte_ids_.fill(-1);
  for (int32_t id = 0; id < size; ++id) {
    const std::string& token = definition_.tokens[id];
    bool single = token.size() == 1 && (definition_.byte_level || static_cast<uint8_t>(token[0]) < 0x80);
    if (single) byte_ids_[static_cast<uint8_t>(token[0])] = id;
  }
  lacks_bytes_ = std::find(byte_ids_.begin(), byte_ids_.end(), -1) != byte_ids_.end();
  byte_pairs_.resize(1 << 16);
  for (size_t pair = 0; pair < byte_pairs_.size(); ++pair) {
    byte_pairs_[pair] = merges_.find(byte_ids_[pair >> 8], byte_ids_[pair & 0xFF]);
  }
  cuts_whole_words_ = !definition_.byte_level && !definition_.ignore_merges;
  find_whole_words();
}

void BpeModel::find_whole_words() {
  const auto size = static_cast<int32_t>(definition_.tokens.size());
  WordTable all(definition_.tokens.size());
  for (int32_t id = 0; id < size; ++id) {
    if (!definition_.tokens[id].empty()) all.add(definition_.tokens[id], id);
  }
  words_ = std::move(all);  // merging looks up characters in it
  whole_.resize(definition_.tokens.size());
  WordTable whole(definition_.tokens.size());
  Buffers buffers;
  std::vector<TokenPiece> pieces;
  for (int32_t id = 0; id < size; ++id) {
    const std::string& token = definition_.tokens[id];
    if (token.empty()) continue;
    pieces.clear();
    bool character = token.size() == 1 || (!definition_.byte_level && utf8_step(token).size == token.size());
    if (!character) merge_word(token, buffers, pieces);
    whole_[id] = character || (pieces.size() == 1 && pieces[0].id == id);
    if (whole_[id]) whole.add(token, id);
  }
  if (!definition_.ignore_merges) words_ = std::move(whole);
}

std::unique_ptr<TokenModel::Scratch> BpeModel::make_scratch() const { return std::make_unique<Buffers>(); }

int32_t BpeModel::character_token(std::string_view character) const {
  if (character.size() == 1) return byte_ids_[static_cast<uint8_t>(character[0])];
  return words_.find(character, definition_.tokens);
}

void BpeModel::append_character(std::string_view character, int32_t id, std::vector<Symbol>& symbols) const {
  const auto size = static_cast<uint32_t>(character.size());
  if (id >= 0) {
    symbols.push_back({id, size, 0, 0});
  } else if (definition_.byte_tokens) {
    for (char byte : character) {
      symbols.push_back({(*definition_.byte_tokens)[static_cast<uint8_t>(byte)], 1, 0, 0});
    }
  } else if (definition_.unknown) {
    bool fuses = definition_.fuse_unknown && !symbols.empty() && symbols.back().id == *definition_.unknown;
    if (fuses) {
      symbols.back().size += size;
    } else {
      symbols.push_back({*definition_.unknown, size, 0, 0});
    }
  } else {
    throw internal_error("a BPE model met a character for which it has no token");
  }
}

void BpeModel::append_symbols(std::string_view word, std::vector<Symbol>& symbols) const {
  symbols.clear();
  if (definition_.byte_level) {
    // A byte without a token counts with the token before it, at the start of the word with the one behind.
    uint32_t left_out = 0;
    for (char byte : word) {
      int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
      if (id >= 0) {
        symbols.push_back({id, 1 + left_out, 0, 0});
        left_out = 0;
      } else if (symbols.empty()) {
        ++left_out;
      } else {
        ++symbols.back().size;
      }
    }
    return;
  }
  while (!word.empty()) {
    Utf8Step step = utf8_step(word);
    std::string_view character = word.substr(0, step.size);
    append_character(character, step.valid ? character_token(character) : -1, symbols);
    word.remove_prefix(step.size);
  }
}

// The merge of two symbols of which nothing has merged yet; `left` stands at `at`.
inline MergeTable::Merge BpeModel::first_merge(std::string_view word, size_t at, const Symbol& left,
                                               const Symbol& right) const {
  if (left.size == 1 && right.size == 1) {
    auto first = static_cast<uint8_t>(word[at]);
    auto second = static_cast<uint8_t>(word[at + 1]);
    if (definition_.byte_level || (first | second) < 0x80) return byte_pairs_[size_t{first} << 8 | second];
  }
  return merges_.find(left.id, right.id);
}

// The ranks of all pairs in an array: each merge looks for the lowest one, which for short words is faster
// than any heap.
void BpeModel::merge_short(std::string_view word, Buffers& buffers, std::vector<TokenPiece>& out) const {
  std::array<uint32_t, kShortWord> ranks;
  std::array<int32_t, kShortWord> merged;
  std::array<TokenPiece, kShortWord> pieces;
  size_t count = buffers.symbols.size();
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const Symbol* symbol = &buffers.symbols[i];
    pieces[i] = {symbol->id, symbol->size};
    if (i + 1 == count) break;
    MergeTable::Merge merge = first_merge(word, at, symbol[0], symbol[1]);
    ranks[i] = merge.rank;
    merged[i] = merge.merged;
    at += symbol->size;
  }
  auto look_up = [&](size_t i) {
    MergeTable::Merge merge = merges_.find(pieces[i].id, pieces[i + 1].id);
    ranks[i] = merge.rank;
    merged[i] = merge.merged;
  };
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) best = ranks[i] < ranks[best] ? i : best;
    if (ranks[best] == MergeTable::kNone) break;
    pieces[best].id = merged[best];
    pieces[best].size += pieces[best + 1].size;
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      pieces[i] = pieces[i + 1];
      ranks[i - 1] = ranks[i];
      merged[i - 1] = merged[i];
    }
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  out.insert(out.end(), pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(count));
}

void BpeModel::merge_long(Buffers& buffers, std::vector<TokenPiece>& out) const {
  std::vector<Symbol>& symbols = buffers.symbols;
  std::vector<Candidate>& heap = buffers.heap;
  const auto count = static_cast<int32_t>(symbols.size());
  heap.clear();
  auto add = [&](int32_t position) {
    if (position < 0 || symbols[position].next < 0) return false;
    MergeTable::Merge merge = merges_.find(symbols[position].id, symbols[symbols[position].next].id);
    if (merge.rank == MergeTable::kNone) return false;
    heap.push_back({merge.rank, position, merge.merged});
    return true;
  };
  auto push = [&](int32_t position) {
    if (add(position)) std::push_heap(heap.begin(), heap.end(), comes_later);
  };
  for (int32_t i = 0; i < count; ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1 < count ? i + 1 : -1;
  }
  for (int32_t i = 0; i < count; ++i) add(i);
  std::make_heap(heap.begin(), heap.end(), comes_later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    Candidate candidate = heap.back();
    heap.pop_back();
    Symbol& left = symbols[candidate.position];
    if (left.size == 0 || left.next < 0) continue;
    Symbol& right = symbols[left.next];
    // The neighbours may have merged since this candidate was found.
    MergeTable::Merge merge = merges_.find(left.id, right.id);
    if (merge.rank != candidate.rank) continue;
    left.id = candidate.merged;
    left.size += right.size;
    right.size = 0;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = candidate.position;
    push(left.previous);
    push(candidate.position);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.size > 0) out.push_back({symbol.id, symbol.size});
  }
}

void BpeModel::merge_word(std::string_view word, Scratch& scratch, std::vector<TokenPiece>& out) const {
  auto& buffers = static_cast<Buffers&>(scratch);
  append_symbols(word, buffers.symbols);
  if (buffers.symbols.size() <= kShortWord) {
    merge_short(word, buffers, out);
  } else {
    merge_long(buffers, out);
  }
}

// Whether the word has a byte without a token: then neighbours meet that no cut knows of.
bool BpeModel::leaves_out(std::string_view word) const {
  return lacks_bytes_ && std::any_of(word.begin(), word.end(),
                                     [this](char byte) { return byte_ids_[static_cast<uint8_t>(byte)] < 0; });
}

void BpeModel::encode_uncached(std::string_view word, Extent extent, Buffers& buffers,
                               std::vector<TokenPiece>& out) const {
  int32_t token = words_.find(word, definition_.tokens);
  if (token >= 0 && (extent == Extent::kWhole || whole_[token])) {
    out.push_back({token, static_cast<uint32_t>(word.size())});
  } else {
    merge_word(word, buffers, out);
  }
}

void BpeModel::encode_extent(std::string_view word, Extent extent, Buffers& buffers,
                             std::vector<TokenPiece>& out) const {
  const size_t blanks = WordKey::blanks_of(word);
  if (!WordKey::fits(word, blanks)) return encode_uncached(word, extent, buffers, out);
  // Where merges are never ignored a part gives what the same bytes give as a whole.
  WordKey key(word, blanks, extent == Extent::kPart && definition_.ignore_merges ? 1 : 0);
  uint64_t hash = key.hash();
  if (buffers.cache.find(key, hash, out)) return;
  size_t before = out.size();
  encode_uncached(word, extent, buffers, out);
  buffers.cache.put(key, hash, out.data() + before, out.size() - before);
}

void BpeModel::encode(std::string_view word, Scratch& scratch, std::vector<TokenPiece>& out) const {
  auto& buffers = static_cast<Buffers&>(scratch);
  if (word.size() <= WordKey::kLongest && !cuts_whole_words_) {
    return encode_extent(word, Extent::kWhole, buffers, out);
  }
  if (definition_.ignore_merges) {
    int32_t token = words_.find(word, definition_.tokens);
    if (token >= 0) return out.push_back({token, static_cast<uint32_t>(word.size())});
  }
  // A run of unknown characters may be one token.
  bool may_cut = definition_.byte_level ? !leaves_out(word) : definition_.byte_tokens.has_value();
  if (!may_cut) return encode_extent(word, Extent::kWhole, buffers, out);
  size_t begin = 0;
  bool left_valid = false;
  char32_t left = 0;
  for (size_t at = 0; at < word.size();) {
    auto byte = static_cast<uint8_t>(word[at]);
    Utf8Step step = byte < 0x80 ? Utf8Step{byte, 1, true, false} : utf8_step(word.substr(at));
    if (left_valid && step.valid && cuts_.may_cut(word, at, left, step.code_point)) {
      encode_extent(word.substr(begin, at - begin), Extent::kPart, buffers, out);
      begin = at;
    }
    left_valid = step.valid;
    left = step.code_point;
    at += step.size;
  }
  encode_extent(word.substr(begin), begin == 0 ? Extent::kWhole : Extent::kPart, buffers, out);
}

}  // namespace stoker
