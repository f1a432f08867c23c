#include "text/piece_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "base/utf8.h"
#include "text/base64.h"

namespace stoker {
namespace {

constexpr std::string_view kBlankSign = "\xE2\x96\x81";
constexpr size_t kLongestPiece = 512;  // bytes; real ones have at most about a hundred

using Type = PieceVocabulary::Type;

// A pair of pieces that merge, with what decides its place.
struct PieceMerge {
  double score;
  uint32_t left_characters;
  uint32_t right_characters;
  uint32_t order;  // in which it was found
  int32_t left;
  int32_t right;
};

bool goes_before(const PieceMerge& a, const PieceMerge& b) {
  if (a.score != b.score) return a.score > b.score;
  if (a.left_characters != b.left_characters) return a.left_characters > b.left_characters;
  if (a.right_characters != b.right_characters) return a.right_characters > b.right_characters;
  return a.order < b.order;
}

Json typed(const char* type) { return Json::object({{"type", type}}); }

Json replace(const char* kind, std::string_view from, std::string_view to) {
  return Json::object({{"type", "Replace"}, {"pattern", Json::object({{kind, from}})}, {"content", to}});
}

class PieceConverter {
 public:
  PieceConverter(const PieceVocabulary& vocabulary, const std::string& what)
      : vocabulary_(vocabulary), what_(what) {}

  Json convert() {
    check_pieces();
    Json json = Json::object();
    json.set("version", "1.0");
    json.set("added_tokens", added_tokens());
    json.set("normalizer", normalizer());
    json.set("pre_tokenizer", nullptr);
    std::vector<std::string_view> names;
    for (const PieceVocabulary::Piece& piece : vocabulary_.pieces) names.push_back(piece.text);
    json.set("post_processor", template_processing_json(vocabulary_.before, vocabulary_.after, names));
    json.set("decoder", decoder());
    json.set("model", vocabulary_.kind == PieceVocabulary::Kind::kBpe ? bpe() : unigram());
    return json;
  }

 private:
  Error bad(size_t id, std::string_view sentence) const {
    return input_error(fmt::format("{}: piece {} ('{}') {}; use the file of the model's makers.", what_, id,
                                   vocabulary_.pieces[id].text.substr(0, 80), sentence));
  }

  void check_pieces() {
    if (vocabulary_.pieces.empty()) throw input_error(fmt::format("{}: there are no pieces.", what_));
    ids_.reserve(vocabulary_.pieces.size());
    for (size_t id = 0; id < vocabulary_.pieces.size(); ++id) {
      const PieceVocabulary::Piece& piece = vocabulary_.pieces[id];
      if (piece.text.empty()) throw bad(id, "is empty");
      if (piece.text.size() > kLongestPiece) {
        throw bad(id, fmt::format("has {} bytes, more than {}", piece.text.size(), kLongestPiece));
      }
      if (to_valid_utf8(piece.text) != piece.text) throw bad(id, "is no UTF-8");
      if (!std::isfinite(piece.score)) throw bad(id, "has a score that is no number");
      if (!ids_.emplace(piece.text, static_cast<int32_t>(id)).second) throw bad(id, "occurs twice");
      if (piece.type == Type::kUnknown && unknown_) throw bad(id, "is a second one for the unknown");
      if (piece.type == Type::kUnknown) unknown_ = static_cast<int32_t>(id);
      if (piece.type == Type::kUnused && vocabulary_.kind == PieceVocabulary::Kind::kUnigram) {
        throw bad(id, "is unused, which Stoker supports in BPE only");
      }
    }
    if (!unknown_) throw input_error(fmt::format("{}: no piece is for the unknown.", what_));
  }

  Json added_tokens() const {
    Json tokens = Json::array();
    for (size_t id = 0; id < vocabulary_.pieces.size(); ++id) {
      const PieceVocabulary::Piece& piece = vocabulary_.pieces[id];
      bool special = piece.type == Type::kControl || piece.type == Type::kUnknown;
      if (!special && piece.type != Type::kUserDefined) continue;
      tokens.as_array().push_back(added_token_json(static_cast<int32_t>(id), piece.text, special));
    }
    return tokens;
  }

  // SentencePiece's steps in its order (sentencepiece/src/normalizer.cc, Normalize).
  Json normalizer() const {
    Json steps = Json::array();
    if (!vocabulary_.charsmap.empty()) {
      Json step = typed("Precompiled");
      step.set("precompiled_charsmap", encode_base64(vocabulary_.charsmap));
      step.set("longest_match", true);
      steps.as_array().push_back(std::move(step));
    }
    if (vocabulary_.remove_extra_whitespaces) {
      steps.as_array().push_back(replace("Regex", "\\A +", ""));
      steps.as_array().push_back(replace("Regex", " {2,}", " "));
    }
    if (vocabulary_.add_dummy_prefix) {
      Json step = typed("Prepend");
      step.set("prepend", vocabulary_.escape_whitespaces ? kBlankSign : std::string_view(" "));
      steps.as_array().push_back(std::move(step));
    }
    if (vocabulary_.escape_whitespaces) steps.as_array().push_back(replace("String", " ", kBlankSign));
    if (vocabulary_.remove_extra_whitespaces) {
      // Signs that the text itself ends with go too.
      const char* at_end = vocabulary_.escape_whitespaces ? "\u2581+\\z" : " +\\z";
      steps.as_array().push_back(replace("Regex", at_end, ""));
    }
    Json sequence = typed("Sequence");
    sequence.set("normalizers", std::move(steps));
    return sequence;
  }

  Json decoder() const {
    Json steps = Json::array();
    if (vocabulary_.escape_whitespaces) steps.as_array().push_back(replace("String", kBlankSign, " "));
    if (vocabulary_.byte_fallback) steps.as_array().push_back(typed("ByteFallback"));
    steps.as_array().push_back(typed("Fuse"));
    if (vocabulary_.add_dummy_prefix || vocabulary_.remove_extra_whitespaces) {
      steps.as_array().push_back(
          Json::object({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}));
    }
    Json sequence = typed("Sequence");
    sequence.set("decoders", std::move(steps));
    return sequence;
  }

  Json unigram() const {
    Json pairs = Json::array();
    pairs.as_array().reserve(vocabulary_.pieces.size());
    for (const PieceVocabulary::Piece& piece : vocabulary_.pieces) {
      pairs.as_array().push_back(Json::array({piece.text, piece.score}));
    }
    return Json::object({{"type", "Unigram"},
                         {"unk_id", *unknown_},
                         {"byte_fallback", vocabulary_.byte_fallback},
                         {"single_precision", true},
                         {"vocab", std::move(pairs)}});
  }

  Json bpe() {
    Json::Object names;
    names.reserve(vocabulary_.pieces.size());
    for (size_t id = 0; id < vocabulary_.pieces.size(); ++id) {
      names.emplace_back(std::string(vocabulary_.pieces[id].text), id);
    }
    return Json::object({{"type", "BPE"},
                         {"unk_token", vocabulary_.pieces[*unknown_].text},
                         {"fuse_unk", true},
                         {"byte_fallback", vocabulary_.byte_fallback},
                         {"vocab", Json::object(std::move(names))},
                         {"merges", merges()}});
  }

  static bool merges_into(Type type) { return type == Type::kNormal || type == Type::kUserDefined; }

  // Every way to put a piece together from two others.
  void find_merges(int32_t id, std::vector<PieceMerge>& merges) const {
    const PieceVocabulary::Piece& piece = vocabulary_.pieces[id];
    size_t first = merges.size();
    auto characters = static_cast<uint32_t>(
        std::count_if(piece.text.begin(), piece.text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    uint32_t before = 0;
    for (size_t cut = utf8_step(piece.text).size; cut < piece.text.size();) {
      ++before;
      auto left = ids_.find(piece.text.substr(0, cut));
      auto right = left == ids_.end() ? left : ids_.find(piece.text.substr(cut));
      if (left != ids_.end() && right != ids_.end()) {
        merges.push_back({piece.score, before, characters - before, 0, left->second, right->second});
      }
      cut += utf8_step(piece.text.substr(cut)).size;
    }
    auto by_ids = [](const PieceMerge& a, const PieceMerge& b) {
      return std::pair(a.left, a.right) < std::pair(b.left, b.right);
    };
    std::sort(merges.begin() + static_cast<std::ptrdiff_t>(first), merges.end(), by_ids);
    for (size_t i = first; i < merges.size(); ++i) merges[i].order = static_cast<uint32_t>(i);
  }

  Json merges() const {
    std::vector<PieceMerge> found;
    for (size_t id = 0; id < vocabulary_.pieces.size(); ++id) {
      if (merges_into(vocabulary_.pieces[id].type)) find_merges(static_cast<int32_t>(id), found);
    }
    std::sort(found.begin(), found.end(), goes_before);
    Json list = Json::array();
    list.as_array().reserve(found.size());
    for (const PieceMerge& merge : found) {
      std::string_view left = vocabulary_.pieces[merge.left].text;
      std::string_view right = vocabulary_.pieces[merge.right].text;
      if (left.find(' ') == std::string_view::npos && right.find(' ') == std::string_view::npos) {
        list.as_array().push_back(fmt::format("{} {}", left, right));
      } else {
        list.as_array().push_back(Json::array({left, right}));
      }
    }
    return list;
  }

  const PieceVocabulary& vocabulary_;
  const std::string& what_;
  std::unordered_map<std::string_view, int32_t> ids_;
  std::optional<int32_t> unknown_;
};

}  // namespace

Json piece_vocabulary_json(const PieceVocabulary& vocabulary, const std::string& what) {
  return PieceConverter(vocabulary, what).convert();
}

Json template_processing_json(const std::vector<int32_t>& before, const std::vector<int32_t>& after,
                              const std::vector<std::string_view>& names) {
  if (before.empty() && after.empty()) return nullptr;
  Json single = Json::array();
  Json special = Json::object();
  auto add = [&](int32_t id) {
    std::string_view name = names.at(static_cast<size_t>(id));
    Json token = Json::object({{"id", name}, {"type_id", 0}});
    single.as_array().push_back(Json::object({{"SpecialToken", std::move(token)}}));
    special.set(std::string(name),
                Json::object({{"id", name}, {"ids", Json::array({id})}, {"tokens", Json::array({name})}}));
  };
  for (int32_t id : before) add(id);
  single.as_array().push_back(Json::object({{"Sequence", Json::object({{"id", "A"}, {"type_id", 0}})}}));
  for (int32_t id : after) add(id);
  Json result = Json::object({{"type", "TemplateProcessing"}});
  result.set("single", std::move(single));
  result.set("special_tokens", std::move(special));
  return result;
}

Json added_token_json(int32_t id, std::string_view content, bool special) {
  return Json::object({{"id", id},
                       {"content", content},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", special}});
}

}  // namespace stoker
