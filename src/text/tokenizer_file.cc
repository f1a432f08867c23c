#include <fmt/format.h>

#include <set>

#include "text/tokenizer_part.h"
#include "text/tokenizer_state.h"

namespace stoker {
namespace {

// An id above is taken for damage: the table of tokens is as long as the largest id.
constexpr int64_t kLargestId = int64_t{1} << 24;

// Reads one tokenizer.json; every complaint names the file and the place in it.
class TokenizerReader {
 public:
  TokenizerReader(const Json& json, const std::string& what) : json_(json), what_(what) {}

  std::unique_ptr<const TokenizerState> read() {
    if (!json_.is_object()) {
      throw TokenizerPart(json_, "the file", what_)
          .bad(fmt::format("is {}, not an object", json_.type_name()));
    }
    state_->what = what_;
    for (const char* key : {"truncation", "padding"}) {
      if (!part(key).json().is_null()) throw part(key).unsupported("null");
    }
    state_->normalizer = read_normalizer(part("normalizer"));
    state_->pretokenizer = PreTokenizer(part("pre_tokenizer"));
    decoder_ = read_decoder(part("decoder"));
    state_->dropped_leading_blanks = decoder_->dropped_leading_blanks();
    read_model();
    read_added_tokens();
    state_->post_processor = read_post_processor(part("post_processor"), state_->ids);
    return std::move(state_);
  }

 private:
  // A member of the file; null when it is absent.
  TokenizerPart part(const char* key) const {
    static const Json null;
    const Json* value = json_.find(key);
    return {value == nullptr ? null : *value, key, what_};
  }

  // Contents of the added tokens marked special, as far as they are well formed.
  StringToId special_tokens() const {
    StringToId special;
    const Json& list = part("added_tokens").json();
    if (!list.is_array()) return special;
    for (const Json& entry : list.as_array()) {
      const Json* content = entry.find("content");
      const Json* flag = entry.find("special");
      bool is_special = flag != nullptr && flag->is_bool() && flag->as_bool();
      if (is_special && content != nullptr && content->is_string()) special.emplace(content->as_string(), 0);
    }
    return special;
  }

  void read_model() {
    if (json_.find("model") == nullptr) throw part("model").bad("is missing");
    ModelVocabulary vocabulary =
        read_token_model(part("model"), state_->pretokenizer.byte_level(), special_tokens());
    state_->model = std::move(vocabulary.model);
    state_->ids = std::move(vocabulary.ids);
    state_->tokens.resize(vocabulary.names.size());
    for (size_t id = 0; id < vocabulary.names.size(); ++id) {
      if (!vocabulary.present[id]) continue;
      state_->tokens[id].present = true;
      state_->tokens[id].bytes = decoder_->bytes(vocabulary.names[id], false);
      keep_first_bytes(static_cast<int32_t>(id), vocabulary.names[id], false);
    }
  }

  void keep_first_bytes(int32_t id, std::string_view name, bool added) {
    state_->first_bytes.erase(id);
    std::string bytes = decoder_->first_bytes(name, added);
    if (bytes != state_->tokens[id].bytes) state_->first_bytes.emplace(id, std::move(bytes));
  }

  void read_added_tokens() {
    if (part("added_tokens").json().is_null()) return;
    if (!part("added_tokens").json().is_array()) throw part("added_tokens").bad("is no list");
    std::vector<AddedToken> tokens;
    std::set<std::string> contents;
    for (const Json& element : part("added_tokens").json().as_array()) {
      TokenizerPart entry(element, fmt::format("added_tokens[{}]", tokens.size()), what_);
      tokens.push_back(read_added_token(entry));
      const AddedToken& token = tokens.back();
      if (!contents.insert(token.content).second) throw entry.bad(fmt::format("repeats '{}'", token.content));
      place_added_token(token, entry);
    }
    state_->added = AddedTokenFinder(std::move(tokens), state_->normalizer.get());
  }

  void place_added_token(const AddedToken& token, const TokenizerPart& entry) {
    auto [known, fresh] = state_->ids.emplace(token.content, token.id);
    if (!fresh && known->second != token.id) {
      throw entry.bad(fmt::format("gives '{}' id {}, but model.vocab gives it {}", token.content, token.id,
                                  known->second));
    }
    if (static_cast<size_t>(token.id) >= state_->tokens.size()) state_->tokens.resize(token.id + 1);
    TokenizerState::Token& target = state_->tokens[token.id];
    if (fresh && target.present)
      throw entry.bad(fmt::format("has id {}, which another token has too", token.id));
    target = {decoder_->bytes(token.content, true), true, token.special, token.is_control()};
    keep_first_bytes(token.id, token.content, true);
  }

  static AddedToken read_added_token(const TokenizerPart& entry) {
    if (!entry.has("id") || entry.text("content", "").empty()) throw entry.bad("has no 'id' or no 'content'");
    AddedToken token;
    int64_t id = entry.integer("id", -1);
    if (id < 0 || id > kLargestId) {
      throw entry.member("id").bad(fmt::format("is {}, no token id between 0 and {}", id, kLargestId));
    }
    token.id = static_cast<int32_t>(id);
    token.content = entry.text("content");
    token.special = entry.flag("special", false);
    token.single_word = entry.flag("single_word", false);
    token.lstrip = entry.flag("lstrip", false);
    token.rstrip = entry.flag("rstrip", false);
    token.normalized = entry.flag("normalized", !token.special);
    return token;
  }

  const Json& json_;
  const std::string& what_;
  std::unique_ptr<const TokenDecoder> decoder_;
  std::unique_ptr<TokenizerState> state_ = std::make_unique<TokenizerState>();
};

}  // namespace

std::unique_ptr<const TokenizerState> read_tokenizer_json(const Json& json, const std::string& what) {
  return TokenizerReader(json, what).read();
}

}  // namespace stoker
