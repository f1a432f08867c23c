#include <fmt/format.h>

#include <set>

#include "base/error.h"
#include "text/byte_map.h"
#include "text/tokenizer_state.h"

namespace stoker {
namespace {

// Ids above are taken for damage: the table of tokens is as long as the largest id.
constexpr int64_t kLargestId = int64_t{1} << 24;

// Reads one tokenizer.json; every complaint names the file and the place in it.
class TokenizerReader {
 public:
  TokenizerReader(const Json& json, const std::string& what) : json_(json), what_(what) {}

  TokenizerState read() {
    if (!json_.is_object()) throw bad("the file", fmt::format("is {}, not an object", json_.type_name()));
    state_.what = what_;
    for (const char* key : {"truncation", "padding", "normalizer"}) {
      const Json* value = json_.find(key);
      if (value != nullptr && !value->is_null()) throw unsupported(key, *value, "null");
    }
    read_pretokenizer();
    read_post_processor();
    read_decoder();
    read_model();
    read_added_tokens();
    return std::move(state_);
  }

 private:
  Error bad(const std::string& place, const std::string& sentence) const {
    return input_error(
        fmt::format("{}: {} {}; use the file of the model's makers, or make one with 'stoker init'.", what_,
                    place, sentence));
  }

  // `value` is of a kind that would change the tokens and is not implemented.
  Error unsupported(const std::string& place, const Json& value, const char* supported) const {
    const Json* type = value.find("type");
    std::string name = type != nullptr && type->is_string() ? type->as_string() : value.dump().substr(0, 80);
    return bad(place, fmt::format("is '{}'; Stoker supports {} there", name, supported));
  }

  static std::string type_of(const Json& value) {
    const Json* type = value.find("type");
    return type != nullptr && type->is_string() ? type->as_string() : "";
  }

  bool flag(const Json& object, const char* key, bool absent, const std::string& place) const {
    const Json* value = object.find(key);
    if (value == nullptr || value->is_null()) return absent;
    if (!value->is_bool()) throw bad(fmt::format("{}.{}", place, key), "is no boolean");
    return value->as_bool();
  }

  // The only element of a Sequence, or the value itself.
  const Json& unwrap(const Json& value, const char* list, const std::string& place) const {
    if (type_of(value) != "Sequence") return value;
    const Json* elements = value.find(list);
    if (elements == nullptr || !elements->is_array()) throw bad(place, fmt::format("has no list '{}'", list));
    if (elements->as_array().size() != 1) {
      throw bad(place, "is a Sequence of several; Stoker supports one ByteLevel there");
    }
    return elements->as_array()[0];
  }

  void read_pretokenizer() {
    const Json* outer = json_.find("pre_tokenizer");
    if (outer == nullptr || outer->is_null())
      throw bad("pre_tokenizer", "is missing; Stoker supports ByteLevel there");
    const Json& value = unwrap(*outer, "pretokenizers", "pre_tokenizer");
    if (type_of(value) != "ByteLevel") throw unsupported("pre_tokenizer", value, "ByteLevel");
    if (flag(value, "add_prefix_space", false, "pre_tokenizer")) {
      throw bad("pre_tokenizer.add_prefix_space", "is true, which Stoker does not support");
    }
    state_.split_words = flag(value, "use_regex", true, "pre_tokenizer");
  }

  void read_post_processor() {
    const Json* outer = json_.find("post_processor");
    if (outer == nullptr || outer->is_null()) return;
    const Json& value = unwrap(*outer, "processors", "post_processor");
    if (type_of(value) != "ByteLevel")
      throw unsupported("post_processor", value, "ByteLevel (which adds no tokens)");
  }

  void read_decoder() {
    const Json* outer = json_.find("decoder");
    if (outer == nullptr || outer->is_null())
      throw bad("decoder", "is missing; Stoker supports ByteLevel there");
    const Json& value = unwrap(*outer, "decoders", "decoder");
    if (type_of(value) != "ByteLevel") throw unsupported("decoder", value, "ByteLevel");
  }

  int32_t read_id(const Json& value, const std::string& place) const {
    if (!value.is_integer() || value.as_double() < 0 || value.as_double() > kLargestId) {
      throw bad(place,
                fmt::format("is {}, no token id between 0 and {}", value.dump().substr(0, 80), kLargestId));
    }
    return static_cast<int32_t>(value.as_int());
  }

  TokenizerState::Token& slot(int32_t id) {
    if (static_cast<size_t>(id) >= state_.tokens.size()) state_.tokens.resize(id + 1);
    return state_.tokens[id];
  }

  void read_model() {
    const Json* model = json_.find("model");
    if (model == nullptr) throw bad("model", "is missing");
    // Old files have no type; a list of merges tells BPE from the others.
    bool is_bpe = type_of(*model) == "BPE" || (type_of(*model).empty() && model->find("merges") != nullptr);
    if (!is_bpe) throw unsupported("model", *model, "BPE");
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json* value = model->find(key);
      bool empty = value == nullptr || value->is_null() || *value == Json("") || *value == Json(0.0);
      if (!empty) throw bad(fmt::format("model.{}", key), "is set, which Stoker does not support");
    }
    if (flag(*model, "byte_fallback", false, "model")) {
      throw bad("model.byte_fallback", "is true; Stoker supports byte-level vocabularies");
    }
    read_vocabulary(*model);
    read_merges(*model);
    if (flag(*model, "ignore_merges", false, "model")) state_.bpe.set_whole_words(by_bytes_);
  }

  void read_vocabulary(const Json& model) {
    const Json* vocabulary = model.find("vocab");
    if (vocabulary == nullptr || !vocabulary->is_object())
      throw bad("model.vocab", "is missing or no object");
    for (const auto& [name, value] : vocabulary->as_object()) {
      std::string place = fmt::format("model.vocab['{}']", name);
      int32_t id = read_id(value, place);
      TokenizerState::Token& token = slot(id);
      if (token.present) throw bad(place, fmt::format("has id {}, which another token has too", id));
      if (!state_.ids.emplace(name, id).second) throw bad(place, "occurs twice");
      std::optional<std::string> bytes = name_to_bytes(name);
      token.present = true;
      token.bytes = bytes.value_or(name);
      if (bytes) by_bytes_.emplace(*bytes, id);
    }
    for (int byte = 0; byte < 256; ++byte) {
      std::string bytes(1, static_cast<char>(byte));
      auto found = by_bytes_.find(bytes);
      if (found == by_bytes_.end()) {
        throw bad("model.vocab",
                  fmt::format("has no token for byte 0x{:02X} ('{}'), so that text would be lost", byte,
                              bytes_to_name(bytes)));
      }
      state_.bpe.byte_ids[byte] = found->second;
    }
  }

  int32_t merge_part(std::string_view name, const std::string& place) const {
    auto found = state_.ids.find(name);
    if (found == state_.ids.end())
      throw bad(place, fmt::format("names '{}', which is not in model.vocab", name));
    return found->second;
  }

  void read_merges(const Json& model) {
    const Json* merges = model.find("merges");
    if (merges == nullptr || !merges->is_array()) throw bad("model.merges", "is missing or no list");
    size_t index = 0;
    for (const Json& merge : merges->as_array()) {
      std::string place = fmt::format("model.merges[{}]", index++);
      std::string left;
      std::string right;
      if (merge.is_string()) {
        const std::string& text = merge.as_string();
        size_t blank = text.find(' ');
        if (blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos) {
          throw bad(place, "is not two names with one blank between");
        }
        left = text.substr(0, blank);
        right = text.substr(blank + 1);
      } else if (merge.is_array() && merge.as_array().size() == 2 && merge.as_array()[0].is_string() &&
                 merge.as_array()[1].is_string()) {
        left = merge.as_array()[0].as_string();
        right = merge.as_array()[1].as_string();
      } else {
        throw bad(place, "is no pair of names");
      }
      int32_t merged = merge_part(left + right, place);
      state_.bpe.add_merge(merge_part(left, place), merge_part(right, place), merged);
    }
  }

  void read_added_tokens() {
    const Json* list = json_.find("added_tokens");
    if (list == nullptr || list->is_null()) return;
    if (!list->is_array()) throw bad("added_tokens", "is no list");
    std::vector<AddedToken> tokens;
    std::set<std::string> contents;
    for (const Json& entry : list->as_array()) {
      std::string place = fmt::format("added_tokens[{}]", tokens.size());
      tokens.push_back(read_added_token(entry, place));
      const AddedToken& token = tokens.back();
      if (!contents.insert(token.content).second)
        throw bad(place, fmt::format("repeats '{}'", token.content));
      auto [known, fresh] = state_.ids.emplace(token.content, token.id);
      if (!fresh && known->second != token.id) {
        throw bad(place, fmt::format("gives '{}' id {}, but model.vocab gives it {}", token.content, token.id,
                                     known->second));
      }
      TokenizerState::Token& target = slot(token.id);
      if (fresh && target.present)
        throw bad(place, fmt::format("has id {}, which another token has too", token.id));
      target = {token.content, true, token.special, token.is_control()};
    }
    state_.added = AddedTokenFinder(std::move(tokens));
  }

  AddedToken read_added_token(const Json& entry, const std::string& place) const {
    const Json* id = entry.find("id");
    const Json* content = entry.find("content");
    if (id == nullptr || content == nullptr || !content->is_string() || content->as_string().empty()) {
      throw bad(place, "has no 'id' or no 'content'");
    }
    AddedToken token;
    token.id = read_id(*id, place + ".id");
    token.content = content->as_string();
    token.special = flag(entry, "special", false, place);
    token.single_word = flag(entry, "single_word", false, place);
    token.lstrip = flag(entry, "lstrip", false, place);
    token.rstrip = flag(entry, "rstrip", false, place);
    token.normalized = flag(entry, "normalized", !token.special, place);
    return token;
  }

  const Json& json_;
  const std::string& what_;
  TokenizerState state_;
  StringToId by_bytes_;
};

}  // namespace

TokenizerState read_tokenizer_json(const Json& json, const std::string& what) {
  return TokenizerReader(json, what).read();
}

}  // namespace stoker
