#include "text/tiktoken_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "text/base64.h"
#include "text/byte_map.h"
#include "text/gguf_vocabulary.h"
#include "text/piece_vocabulary.h"
#include "text/word_scanner.h"

namespace stoker {
namespace {

constexpr size_t kLongestToken = 512;  // bytes; real ones have at most about a hundred

struct KindInfo {
  TiktokenKind kind;
  std::string_view name;
  size_t ranks;  // that the public file has
  WordPattern pattern;
};
constexpr KindInfo kKinds[] = {
    {TiktokenKind::kGpt2, "gpt2", 50256, WordPattern::kGpt2},
    {TiktokenKind::kCl100k, "cl100k", 100256, WordPattern::kCl100k},
    {TiktokenKind::kO200k, "o200k", 199998, WordPattern::kO200k},
    {TiktokenKind::kLlama3, "llama3", 128000, WordPattern::kCl100k},
    {TiktokenKind::kQwen, "qwen", 151643, WordPattern::kQwen2},
};

struct SpecialToken {
  int32_t id;
  std::string content;
  bool special = true;
};
using SpecialTokens = std::vector<SpecialToken>;

void append_numbered(SpecialTokens& tokens, int32_t& id, const char* name, int first, int count) {
  for (int i = first; i < first + count; ++i) tokens.push_back({id++, fmt::format("<|{}_{}|>", name, i)});
}

// The special tokens of a public vocabulary; `ranks`: the number of its other tokens.
SpecialTokens special_tokens_of(TiktokenKind kind, int32_t ranks) {
  SpecialTokens tokens;
  int32_t id = ranks;
  switch (kind) {
    case TiktokenKind::kGpt2:
      return {{50256, "<|endoftext|>"}};
    case TiktokenKind::kCl100k:
      return {{100257, "<|endoftext|>"},
              {100258, "<|fim_prefix|>"},
              {100259, "<|fim_middle|>"},
              {100260, "<|fim_suffix|>"},
              {100276, "<|endofprompt|>"}};
    case TiktokenKind::kO200k:
      return {{199999, "<|endoftext|>"}, {200018, "<|endofprompt|>"}};
    case TiktokenKind::kLlama3:
      tokens = {{id, "<|begin_of_text|>"}, {id + 1, "<|end_of_text|>"}};
      id += 2;
      append_numbered(tokens, id, "reserved_special_token", 0, 4);
      tokens.push_back({id++, "<|start_header_id|>"});
      tokens.push_back({id++, "<|end_header_id|>"});
      append_numbered(tokens, id, "reserved_special_token", 4, 1);
      tokens.push_back({id++, "<|eot_id|>"});
      append_numbered(tokens, id, "reserved_special_token", 5, 246);
      return tokens;
    case TiktokenKind::kQwen:
      tokens = {{id, "<|endoftext|>"}, {id + 1, "<|im_start|>"}, {id + 2, "<|im_end|>"}};
      id += 3;
      append_numbered(tokens, id, "extra", 0, 205);
      return tokens;
  }
  throw internal_error("A tiktoken vocabulary is of a kind that is no member of TiktokenKind.");
}

// Reads one file; every complaint names the file and the line.
class TiktokenReader {
 public:
  TiktokenReader(std::string_view bytes, const std::string& what) : bytes_(bytes), what_(what) {}

  // The tokens by rank.
  std::vector<std::string> read() {
    while (!bytes_.empty()) {
      ++line_;
      size_t end = bytes_.find('\n');
      std::string_view line = bytes_.substr(0, end);
      bytes_.remove_prefix(end == std::string_view::npos ? bytes_.size() : end + 1);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) read_line(line);
    }
    if (tokens_.empty()) throw bad("is no line with a token");
    auto hole = std::find(tokens_.begin(), tokens_.end(), "");
    if (hole != tokens_.end()) {
      throw input_error(fmt::format("{}: no line has rank {}; use the file of the model's makers.", what_,
                                    hole - tokens_.begin()));
    }
    return std::move(tokens_);
  }

 private:
  Error bad(std::string_view sentence) const {
    return input_error(
        fmt::format("{}: line {} {}; use the file of the model's makers.", what_, line_, sentence));
  }

  void read_line(std::string_view line) {
    size_t blank = line.find(' ');
    if (blank == std::string_view::npos) throw bad("has no blank between a token and its rank");
    std::optional<std::string> token = decode_base64(line.substr(0, blank));
    if (!token || token->empty()) throw bad("does not start with base64");
    if (token->size() > kLongestToken) throw bad(fmt::format("has a token of {} bytes", token->size()));
    std::string_view number = line.substr(blank + 1);
    size_t rank = 0;
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
    // A file has fewer ranks than bytes; so the table is bounded by it.
    if (error != std::errc() || end != number.data() + number.size() || rank >= whole_) {
      throw bad(fmt::format("has '{}' where a rank is expected", number.substr(0, 40)));
    }
    if (rank >= tokens_.size()) tokens_.resize(rank + 1);
    if (!tokens_[rank].empty()) throw bad(fmt::format("has rank {}, which another line has too", rank));
    if (!known_.emplace(*token, rank).second) throw bad("repeats a token");
    tokens_[rank] = *std::move(token);
  }

  std::string_view bytes_;
  const std::string& what_;
  size_t whole_ = bytes_.size();
  size_t line_ = 0;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, size_t> known_;
};

const KindInfo& kind_of(std::optional<TiktokenKind> kind, size_t ranks, const std::string& what) {
  for (const KindInfo& info : kKinds) {
    if (kind ? info.kind == *kind : info.ranks == ranks) return info;
  }
  throw input_error(
      fmt::format("{}: a tiktoken file says nothing of its pattern and special tokens, and none of the known "
                  "kinds (gpt2, cl100k, o200k, llama3, qwen) has {} ranks; use the model's tokenizer.json.",
                  what, ranks));
}

// Those that the config beside the file names; empty without.
SpecialTokens config_tokens(const Json& config, size_t ranks, const std::string& what) {
  SpecialTokens tokens;
  const Json* decoder = config.find("added_tokens_decoder");
  if (decoder == nullptr || !decoder->is_object()) return tokens;
  for (const auto& [key, entry] : decoder->as_object()) {
    int32_t id = -1;
    auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const Json* content = entry.find("content");
    bool good = error == std::errc() && end == key.data() + key.size() && id >= 0 && content != nullptr &&
                content->is_string();
    if (!good) {
      throw input_error(
          fmt::format("{}: added_tokens_decoder['{}'] in the tokenizer_config.json beside it is "
                      "no id with a content; use the file of the model's makers.",
                      what, key.substr(0, 40)));
    }
    const Json* special = entry.find("special");
    bool is_special = special == nullptr || !special->is_bool() || special->as_bool();
    if (static_cast<size_t>(id) >= ranks) tokens.push_back({id, content->as_string(), is_special});
  }
  return tokens;
}

// Pairs of tokens that make up a token, by its rank and then by theirs.
Json merges_of(const std::vector<std::string>& tokens, const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, int32_t> ranks;
  ranks.reserve(tokens.size());
  for (size_t rank = 0; rank < tokens.size(); ++rank) ranks.emplace(tokens[rank], static_cast<int32_t>(rank));
  Json list = Json::array();
  list.as_array().reserve(tokens.size() * 2);
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (std::string_view token : tokens) {
    pairs.clear();
    for (size_t cut = 1; cut < token.size(); ++cut) {
      auto left = ranks.find(token.substr(0, cut));
      auto right = left == ranks.end() ? left : ranks.find(token.substr(cut));
      if (left != ranks.end() && right != ranks.end()) pairs.emplace_back(left->second, right->second);
    }
    std::sort(pairs.begin(), pairs.end());
    // Names in GPT-2's map hold no blank.
    for (auto [left, right] : pairs)
      list.as_array().push_back(fmt::format("{} {}", names[left], names[right]));
  }
  return list;
}

}  // namespace

std::optional<TiktokenKind> tiktoken_kind(std::string_view name) {
  for (const KindInfo& info : kKinds) {
    if (info.name == name) return info.kind;
  }
  return std::nullopt;
}

Json tiktoken_json(std::string_view bytes, std::optional<TiktokenKind> kind, const Json& config,
                   const std::string& what) {
  std::vector<std::string> tokens = TiktokenReader(bytes, what).read();
  const KindInfo& info = kind_of(kind, tokens.size(), what);
  std::vector<std::string> names;
  Json::Object vocabulary;
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    names.push_back(bytes_to_name(tokens[rank]));
    vocabulary.emplace_back(names.back(), rank);
  }
  SpecialTokens special = config_tokens(config, tokens.size(), what);
  if (special.empty()) special = special_tokens_of(info.kind, static_cast<int32_t>(tokens.size()));
  Json added = Json::array();
  for (const auto& [id, content, flag] : special) {
    added.as_array().push_back(added_token_json(id, content, flag));
  }

  Json json = Json::object({{"version", "1.0"}, {"added_tokens", std::move(added)}});
  json.set("normalizer", info.kind == TiktokenKind::kQwen ? Json::object({{"type", "NFC"}}) : Json());
  json.set("pre_tokenizer", byte_level_pre_tokenizer(info.pattern));
  json.set("post_processor", nullptr);
  if (info.kind == TiktokenKind::kLlama3) {
    auto first = std::find_if(special.begin(), special.end(),
                              [](const auto& token) { return token.content == "<|begin_of_text|>"; });
    if (first != special.end()) {
      std::vector<std::string_view> by_id(static_cast<size_t>(first->id) + 1);
      by_id.back() = first->content;
      json.set("post_processor", template_processing_json({first->id}, {}, by_id));
    }
  }
  json.set("decoder", byte_level_decoder());
  json.set("model", Json::object({{"type", "BPE"},
                                  {"ignore_merges", true},
                                  {"vocab", Json::object(std::move(vocabulary))},
                                  {"merges", merges_of(tokens, names)}}));
  return json;
}

}  // namespace stoker
