#include <fmt/format.h>

#include "text/bpe.h"
#include "text/byte_map.h"
#include "text/tokenizer_part.h"
#include "text/unigram.h"

namespace stoker {
namespace {

// Ids above are taken for damage: the table of tokens is as long as the largest id.
constexpr int64_t kLargestTokenId = int64_t{1} << 24;

// Reads the member "model" of the type BPE.
class BpeReader {
 public:
  BpeReader(const TokenizerPart& part, bool byte_level) : part_(part) { definition_.byte_level = byte_level; }

  ModelVocabulary read() {
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json* value = part_.json().find(key);
      bool empty = value == nullptr || value->is_null() || *value == Json("") || *value == Json(0.0);
      if (!empty) throw part_.member(key).bad("is set, which Stoker does not support");
    }
    read_vocabulary();
    read_merges();
    definition_.ignore_merges = part_.flag("ignore_merges", false);
    if (definition_.byte_level) {
      require_common_bytes();
    } else {
      read_unknown();
    }
    result_.model = std::make_unique<BpeModel>(std::move(definition_));
    return std::move(result_);
  }

 private:
  int32_t read_id(const Json& value, const std::string& name) const {
    if (!value.is_integer() || value.as_double() < 0 || value.as_double() > kLargestTokenId) {
      throw TokenizerPart(value, entry_place(name), part_.file())
          .bad(fmt::format("is {}, no token id between 0 and {}", value.dump().substr(0, 80),
                           kLargestTokenId));
    }
    return static_cast<int32_t>(value.as_int());
  }

  std::string entry_place(const std::string& name) const {
    return fmt::format("{}.vocab['{}']", part_.place(), name);
  }

  void read_vocabulary() {
    TokenizerPart vocabulary = part_.member("vocab");
    if (!vocabulary.json().is_object()) throw vocabulary.bad("is no object");
    const Json::Object& members = vocabulary.json().as_object();
    result_.ids.reserve(members.size());
    for (const auto& [name, value] : members) {
      int32_t id = read_id(value, name);
      auto size = static_cast<size_t>(id) + 1;
      if (size > result_.names.size()) {
        result_.names.resize(size);
        result_.present.resize(size);
        definition_.tokens.resize(size);
      }
      TokenizerPart entry(value, entry_place(name), part_.file());
      if (result_.present[id]) throw entry.bad(fmt::format("has id {}, which another token has too", id));
      if (!result_.ids.emplace(name, id).second) throw entry.bad("occurs twice");
      result_.names[id] = name;
      result_.present[id] = true;
      definition_.tokens[id] = definition_.byte_level ? name_to_bytes(name).value_or("") : name;
    }
  }

  // Public vocabularies lack control characters and bytes that stand in no UTF-8 text, SmolLM2's for one;
  // their makers' program leaves such bytes out, and so does BpeModel. Without a letter, a vocabulary is
  // broken.
  void require_common_bytes() const {
    for (int byte = ' '; byte <= '~'; ++byte) {
      std::string name = bytes_to_name(std::string(1, static_cast<char>(byte)));
      if (!result_.ids.contains(name)) {
        throw part_.member("vocab").bad(
            fmt::format("has no token for byte 0x{:02X} ('{}'), so that text would be lost", byte, name));
      }
    }
  }

  void read_unknown() {
    definition_.fuse_unknown = part_.flag("fuse_unk", false);
    if (part_.has("unk_token")) {
      auto found = result_.ids.find(part_.text("unk_token"));
      if (found == result_.ids.end()) throw part_.member("unk_token").bad("is not in model.vocab");
      definition_.unknown = found->second;
    }
    if (part_.flag("byte_fallback", false)) read_byte_tokens();
    if (!definition_.byte_tokens && !definition_.unknown) {
      throw part_.bad("has neither byte tokens nor an unk_token, so that text would be lost");
    }
  }

  void read_byte_tokens() {
    std::array<int32_t, 256> ids{};
    for (int byte = 0; byte < 256; ++byte) {
      auto found = result_.ids.find(fmt::format("<0x{:02X}>", byte));
      if (found == result_.ids.end()) {
        throw part_.member("byte_fallback")
            .bad(fmt::format("is true, but model.vocab has no '<0x{:02X}>'", byte));
      }
      ids[byte] = found->second;
    }
    definition_.byte_tokens = ids;
  }

  Error bad_merge(size_t index, std::string_view sentence) const {
    return TokenizerPart(part_.json(), fmt::format("{}.merges[{}]", part_.place(), index), part_.file())
        .bad(sentence);
  }

  int32_t merge_token(std::string_view name, size_t index) const {
    auto found = result_.ids.find(name);
    if (found != result_.ids.end()) return found->second;
    throw bad_merge(index, fmt::format("names '{}', which is not in model.vocab", name));
  }

  void read_merges() {
    const Json* merges = part_.json().find("merges");
    if (merges == nullptr || !merges->is_array()) throw part_.bad("has no list 'merges'");
    size_t index = 0;
    std::string joined;
    definition_.merges.reserve(merges->as_array().size());
    for (const Json& merge : merges->as_array()) {
      std::string_view left;
      std::string_view right;
      if (merge.is_string()) {
        std::string_view text = merge.as_string();
        size_t blank = text.find(' ');
        if (blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos) {
          throw bad_merge(index, "is not two names with one blank between");
        }
        left = text.substr(0, blank);
        right = text.substr(blank + 1);
      } else if (merge.is_array() && merge.as_array().size() == 2 && merge.as_array()[0].is_string() &&
                 merge.as_array()[1].is_string()) {
        left = merge.as_array()[0].as_string();
        right = merge.as_array()[1].as_string();
      } else {
        throw bad_merge(index, "is no pair of names");
      }
      joined.assign(left).append(right);
      definition_.merges.push_back(
          {merge_token(left, index), merge_token(right, index), merge_token(joined, index)});
      ++index;
    }
  }

  const TokenizerPart& part_;
  BpeDefinition definition_;
  ModelVocabulary result_;
};

}  // namespace

ModelVocabulary read_token_model(const TokenizerPart& part, bool byte_level, const StringToId& special) {
  // Old files have no type; a list of merges tells BPE from the others.
  if (part.type() == "BPE" || (part.type().empty() && part.has("merges"))) {
    return BpeReader(part, byte_level).read();
  }
  if (part.type() == "Unigram" || (part.type().empty() && part.has("unk_id"))) {
    if (byte_level)
      throw part.bad("is 'Unigram' behind a ByteLevel pre-tokenizer, which Stoker does not support");
    return read_unigram_model(part, special);
  }
  throw part.unsupported("BPE and Unigram");
}

}  // namespace stoker
