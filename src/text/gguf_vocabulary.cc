#include "text/gguf_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/piece_vocabulary.h"

namespace stoker {
namespace {

using Type = PieceVocabulary::Type;

// How byte-level vocabularies of a `pre` cut and normalize text.
struct PreInfo {
  std::string_view name;
  WordPattern pattern;
  bool single_digits = false;  // digits are cut off one by one first
  bool composes = false;       // NFC
  bool whole_words = false;    // a word that is a token is not taken apart
  bool adds_bos = false;       // where the file does not say
};
constexpr PreInfo kPres[] = {
    {.name = "gpt-2", .pattern = WordPattern::kGpt2},
    {.name = "phi-2", .pattern = WordPattern::kGpt2},
    {.name = "smollm", .pattern = WordPattern::kGpt2, .single_digits = true},
    {.name = "llama-bpe", .pattern = WordPattern::kCl100k, .whole_words = true, .adds_bos = true},
    {.name = "llama3", .pattern = WordPattern::kCl100k, .whole_words = true, .adds_bos = true},
    {.name = "llama-v3", .pattern = WordPattern::kCl100k, .whole_words = true, .adds_bos = true},
    {.name = "dbrx", .pattern = WordPattern::kCl100k},
    {.name = "qwen2", .pattern = WordPattern::kQwen2, .composes = true},
    {.name = "deepseek-r1-qwen", .pattern = WordPattern::kQwen2, .composes = true},
    {.name = "qwen35", .pattern = WordPattern::kQwen35, .composes = true},
    {.name = "gpt-4o", .pattern = WordPattern::kO200k},
    {.name = "llama4", .pattern = WordPattern::kO200k, .adds_bos = true},
    {.name = "tekken", .pattern = WordPattern::kTekken, .whole_words = true, .adds_bos = true},
};

class GgufVocabularyConverter {
 public:
  GgufVocabularyConverter(const GgufVocabulary& vocabulary, const std::string& what)
      : vocabulary_(vocabulary), what_(what) {}

  Json convert() {
    if (vocabulary_.tokens.empty()) throw bad("has no tokens");
    if (!vocabulary_.types.empty() && vocabulary_.types.size() != vocabulary_.tokens.size()) {
      throw bad(
          fmt::format("has {} tokens and {} types", vocabulary_.tokens.size(), vocabulary_.types.size()));
    }
    if (vocabulary_.model == "llama") return pieces(PieceVocabulary::Kind::kBpe);
    if (vocabulary_.model == "t5") return pieces(PieceVocabulary::Kind::kUnigram);
    if (vocabulary_.model == "gpt2") return byte_level();
    throw bad(fmt::format("is of the model '{}'; Stoker supports llama, t5 and gpt2",
                          vocabulary_.model.substr(0, 40)));
  }

 private:
  Error bad(std::string_view sentence) const {
    return input_error(
        fmt::format("{}: the vocabulary in the GGUF file {}; use a file with the tokenizer of "
                    "the model's makers, or their tokenizer.json.",
                    what_, sentence));
  }

  Type type_of(size_t id) const {
    int64_t type = vocabulary_.types.empty() ? 1 : vocabulary_.types[id];
    if (type < 1 || type > 6) throw bad(fmt::format("gives token {} the unknown type {}", id, type));
    // Some files call the tokens that start and end a text normal.
    auto number = static_cast<int64_t>(id);
    // And the one for the unknown a control token.
    if (vocabulary_.unknown == number && (type == 1 || type == 3) && !types_name_unknown())
      return Type::kUnknown;
    bool ends = vocabulary_.bos == number || vocabulary_.eos == number;
    return ends && type == 1 ? Type::kControl : static_cast<Type>(type);
  }

  bool types_name_unknown() const {
    return std::find(vocabulary_.types.begin(), vocabulary_.types.end(), 2) != vocabulary_.types.end();
  }

  // The ids around a text.
  std::vector<int32_t> around(const char* name, std::optional<int64_t> id, bool adds) const {
    if (id && (*id < 0 || *id >= static_cast<int64_t>(vocabulary_.tokens.size()))) {
      throw bad(fmt::format("has {}_token_id {}, but {} tokens", name, *id, vocabulary_.tokens.size()));
    }
    if (!id || !adds) return {};
    return {static_cast<int32_t>(*id)};
  }

  Json pieces(PieceVocabulary::Kind kind) const {
    if (vocabulary_.scores.size() != vocabulary_.tokens.size()) {
      throw bad(
          fmt::format("has {} tokens and {} scores", vocabulary_.tokens.size(), vocabulary_.scores.size()));
    }
    bool is_bpe = kind == PieceVocabulary::Kind::kBpe;
    PieceVocabulary pieces;
    pieces.kind = kind;
    for (size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
      pieces.pieces.push_back({vocabulary_.tokens[id], vocabulary_.scores[id], type_of(id)});
      pieces.byte_fallback = pieces.byte_fallback || pieces.pieces.back().type == Type::kByte;
    }
    pieces.charsmap = vocabulary_.charsmap;
    pieces.add_dummy_prefix = vocabulary_.add_space_prefix.value_or(true);
    pieces.remove_extra_whitespaces = vocabulary_.remove_extra_whitespaces.value_or(!is_bpe);
    pieces.before = around("bos", vocabulary_.bos, vocabulary_.add_bos.value_or(is_bpe));
    pieces.after = around("eos", vocabulary_.eos, vocabulary_.add_eos.value_or(!is_bpe));
    return piece_vocabulary_json(pieces, what_);
  }

  const PreInfo& pre_info() const {
    auto found = std::find_if(std::begin(kPres), std::end(kPres),
                              [&](const PreInfo& info) { return info.name == vocabulary_.pre; });
    if (found != std::end(kPres)) return *found;
    throw bad(fmt::format("cuts text by '{}', which Stoker does not know", vocabulary_.pre.substr(0, 40)));
  }

  Json byte_level() const {
    const PreInfo& pre = pre_info();
    Json added = Json::array();
    Json::Object names;
    names.reserve(vocabulary_.tokens.size());
    for (size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
      std::string_view name = vocabulary_.tokens[id];
      Type type = type_of(id);
      if (type == Type::kControl || type == Type::kUserDefined) {
        added.as_array().push_back(added_token_json(static_cast<int32_t>(id), name, type == Type::kControl));
      }
      names.emplace_back(std::string(name), id);
    }
    Json merges = Json::array();
    merges.as_array().reserve(vocabulary_.merges.size());
    for (std::string_view merge : vocabulary_.merges) merges.as_array().push_back(merge);

    Json json = Json::object({{"version", "1.0"}, {"added_tokens", std::move(added)}});
    json.set("normalizer", pre.composes ? Json::object({{"type", "NFC"}}) : Json());
    json.set("pre_tokenizer", pre_tokenizer(pre));
    json.set("post_processor",
             template_processing_json(
                 around("bos", vocabulary_.bos, vocabulary_.add_bos.value_or(pre.adds_bos)),
                 around("eos", vocabulary_.eos, vocabulary_.add_eos.value_or(false)), vocabulary_.tokens));
    json.set("decoder", byte_level_decoder());
    json.set("model", Json::object({{"type", "BPE"},
                                    {"ignore_merges", pre.whole_words},
                                    {"vocab", Json::object(std::move(names))},
                                    {"merges", std::move(merges)}}));
    return json;
  }

  static Json pre_tokenizer(const PreInfo& pre) {
    Json bytes = byte_level_pre_tokenizer(pre.pattern);
    if (!pre.single_digits) return bytes;
    Json digits = Json::object({{"type", "Digits"}, {"individual_digits", true}});
    return Json::object(
        {{"type", "Sequence"}, {"pretokenizers", Json::array({std::move(digits), std::move(bytes)})}});
  }

  const GgufVocabulary& vocabulary_;
  const std::string& what_;
};

Json byte_level_part(bool cuts) {
  return Json::object(
      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", cuts}});
}

}  // namespace

Json gguf_vocabulary_json(const GgufVocabulary& vocabulary, const std::string& what) {
  return GgufVocabularyConverter(vocabulary, what).convert();
}

Json byte_level_pre_tokenizer(WordPattern pattern) {
  if (pattern == WordPattern::kGpt2) return byte_level_part(true);
  Json split = Json::object({{"type", "Split"},
                             {"pattern", Json::object({{"Regex", pattern_regex(pattern)}})},
                             {"behavior", "Isolated"},
                             {"invert", false}});
  return Json::object(
      {{"type", "Sequence"}, {"pretokenizers", Json::array({std::move(split), byte_level_part(false)})}});
}

Json byte_level_decoder() { return byte_level_part(true); }

}  // namespace stoker
