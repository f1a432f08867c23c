#include "text/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/unicode.h"

namespace stoker {
namespace {

// Start of the character that ends at `end`; `end` itself at the start of the text.
Utf8Step step_before(std::string_view text, size_t end) {
  size_t start = end;
  for (int back = 0; back < 4 && start > 0; ++back) {
    --start;
    Utf8Step step = utf8_step(text.substr(start, end - start));
    if (step.valid && start + step.size == end) return step;
  }
  return {};
}

bool ends_with_word(std::string_view text, size_t end) {
  Utf8Step step = step_before(text, end);
  return step.valid && is_word(step.code_point);
}

bool starts_with_word(std::string_view text) {
  if (text.empty()) return false;
  Utf8Step step = utf8_step(text);
  return step.valid && is_word(step.code_point);
}

// Start of the white space that ends at `end`, not before `lowest`.
size_t space_start(std::string_view text, size_t end, size_t lowest) {
  while (end > lowest) {
    Utf8Step step = step_before(text, end);
    if (!step.valid || !is_space(step.code_point) || end - step.size < lowest) break;
    end -= step.size;
  }
  return end;
}

// End of the white space that starts at `begin`, not after `highest`.
size_t space_end(std::string_view text, size_t begin, size_t highest) {
  while (begin < highest) {
    Utf8Step step = utf8_step(text.substr(begin, highest - begin));
    if (!step.valid || !is_space(step.code_point)) break;
    begin += step.size;
  }
  return begin;
}

bool allowed(const AddedToken& token, AddedTokens which) {
  switch (which) {
    case AddedTokens::kPlain:
      return !token.is_control();
    case AddedTokens::kNonSpecial:
      return !token.special;
    case AddedTokens::kAll:
      return true;
  }
  return false;
}

}  // namespace

bool AddedToken::is_control() const {
  if (special) return true;
  return content.size() >= 3 && content.front() == '<' && content.back() == '>' &&
         content.find_first_of(" \t\n") == std::string::npos;
}

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens, const Normalizer* normalizer)
    : tokens_(std::move(tokens)) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    AlignedText content;
    content.assign(token.content);
    if (token.normalized && normalizer != nullptr) normalizer->normalize(content);
    insert(token.normalized ? normalized_ : raw_, content.text, static_cast<int32_t>(i));
  }
  join_runs(raw_);
  join_runs(normalized_);
}

void AddedTokenFinder::insert(Tree& tree, std::string_view content, int32_t token) {
  if (content.empty()) return;
  int32_t node = 0;
  for (char c : content) {
    uint8_t byte = static_cast<uint8_t>(c);
    auto& children = tree.nodes[node].children;
    auto at = std::lower_bound(children.begin(), children.end(), std::pair<uint8_t, int32_t>(byte, 0));
    if (at != children.end() && at->first == byte) {
      node = at->second;
      continue;
    }
    int32_t child = static_cast<int32_t>(tree.nodes.size());
    children.insert(at, {byte, child});
    if (node == 0) tree.first[byte] = child;
    tree.nodes.emplace_back();  // invalidates `children`
    node = child;
  }
  tree.nodes[node].token = token;
}

void AddedTokenFinder::join_runs(Tree& tree) {
  std::vector<bool> entered(tree.nodes.size(), false);  // from a branch
  for (const auto& [byte, child] : tree.nodes[0].children) entered[child] = true;
  for (size_t i = 1; i < tree.nodes.size(); ++i) {  // children come behind their parents
    if (!entered[i]) continue;
    auto end = static_cast<int32_t>(i);
    std::string run;
    while (tree.nodes[end].token < 0 && tree.nodes[end].children.size() == 1) {
      run.push_back(static_cast<char>(tree.nodes[end].children[0].first));
      end = tree.nodes[end].children[0].second;
    }
    for (const auto& [byte, child] : tree.nodes[end].children) entered[child] = true;
    if (run.empty()) continue;
    tree.nodes[i].run = std::move(run);
    tree.nodes[i].run_end = end;
  }
}

AddedTokenFinder::Match AddedTokenFinder::longest_match(const Tree& tree, std::string_view text) const {
  Match longest;
  int32_t node = tree.first[static_cast<uint8_t>(text[0])];
  for (size_t at = 1; node != 0; ++at) {
    if (const Node& entered = tree.nodes[node]; entered.run_end != 0) {
      if (!text.substr(at).starts_with(entered.run)) break;
      at += entered.run.size();
      node = entered.run_end;
    }
    const Node& here = tree.nodes[node];
    if (here.token >= 0) longest = {&tokens_[here.token], at};
    if (at == text.size()) break;
    const auto byte = static_cast<uint8_t>(text[at]);
    const auto child =
        std::lower_bound(here.children.begin(), here.children.end(), std::pair<uint8_t, int32_t>(byte, 0));
    node = child != here.children.end() && child->first == byte ? child->second : 0;
  }
  return longest;
}

void AddedTokenFinder::split(Pass pass, std::string_view text, std::span<const TrustRange> ranges,
                             std::vector<TextSegment>& out) const {
  const Tree& tree = this->tree(pass);
  size_t done = 0;  // everything before is in `out`
  auto range = ranges.begin();
  for (size_t at = 0; at < text.size();) {
    if (tree.first[static_cast<uint8_t>(text[at])] == 0) {
      ++at;
      continue;
    }
    while (at >= range->end) ++range;
    Match match = longest_match(tree, text.substr(at, range->end - at));
    if (match.token == nullptr) {
      ++at;
      continue;
    }
    const AddedToken& token = *match.token;
    size_t begin = at;
    size_t end = at + match.size;
    at = end;
    if (!allowed(token, range->added_tokens)) continue;
    if (token.single_word) {
      bool word_before = begin > 0 && ends_with_word(text, begin);
      if (word_before || starts_with_word(text.substr(end))) continue;
    }
    if (token.lstrip) begin = space_start(text, begin, done);
    if (token.rstrip) end = space_end(text, end, text.size());
    if (done < begin) out.push_back({nullptr, done, begin});
    out.push_back({&token, begin, end});
    done = end;
    at = std::max(at, end);
  }
  if (done < text.size()) out.push_back({nullptr, done, text.size()});
}

}  // namespace stoker
