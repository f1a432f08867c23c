#include "text/bpe.h"

#include <algorithm>

namespace stoker {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// Orders a max-heap so that the lowest rank, then the leftmost position, comes first.
bool comes_later(const BpeModel::Workspace::Candidate& a, const BpeModel::Workspace::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

void BpeModel::add_merge(int32_t left, int32_t right, int32_t merged) {
  merges_[pair_key(left, right)] = {next_rank_++, merged};
}

const BpeModel::Merge* BpeModel::find_merge(int32_t left, int32_t right) const {
  auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BpeModel::push_candidate(Workspace& workspace, int32_t position) const {
  if (position < 0) return;
  const Workspace::Symbol& symbol = workspace.symbols[position];
  if (symbol.next < 0) return;
  const Merge* merge = find_merge(symbol.id, workspace.symbols[symbol.next].id);
  if (merge == nullptr) return;
  workspace.heap.push_back({merge->rank, position, merge->merged});
  std::push_heap(workspace.heap.begin(), workspace.heap.end(), comes_later);
}

void BpeModel::merge_all(Workspace& workspace) const {
  std::vector<Workspace::Symbol>& symbols = workspace.symbols;
  while (!workspace.heap.empty()) {
    std::pop_heap(workspace.heap.begin(), workspace.heap.end(), comes_later);
    Workspace::Candidate candidate = workspace.heap.back();
    workspace.heap.pop_back();
    Workspace::Symbol& left = symbols[candidate.position];
    if (left.size == 0 || left.next < 0) continue;
    Workspace::Symbol& right = symbols[left.next];
    // The neighbours may have merged since this candidate was found.
    const Merge* merge = find_merge(left.id, right.id);
    if (merge == nullptr || merge->merged != candidate.merged) continue;
    left.id = candidate.merged;
    left.size += right.size;
    right.size = 0;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = candidate.position;
    push_candidate(workspace, left.previous);
    push_candidate(workspace, candidate.position);
  }
}

void BpeModel::encode(std::string_view word, Workspace& workspace, std::vector<Piece>& out) const {
  if (!whole_words_.empty()) {
    auto found = whole_words_.find(word);
    if (found != whole_words_.end()) {
      out.push_back({found->second, static_cast<uint32_t>(word.size())});
      return;
    }
  }
  if (merges_.empty() || word.size() == 1) {
    for (char byte : word) out.push_back({byte_ids[static_cast<uint8_t>(byte)], 1});
    return;
  }
  workspace.symbols.clear();
  workspace.heap.clear();
  int32_t count = static_cast<int32_t>(word.size());
  for (int32_t i = 0; i < count; ++i) {
    workspace.symbols.push_back(
        {byte_ids[static_cast<uint8_t>(word[i])], i - 1, i + 1 < count ? i + 1 : -1, 1});
  }
  for (int32_t i = 0; i < count; ++i) push_candidate(workspace, i);
  merge_all(workspace);
  for (const Workspace::Symbol& symbol : workspace.symbols) {
    if (symbol.size > 0) out.push_back({symbol.id, symbol.size});
  }
}

}  // namespace stoker
