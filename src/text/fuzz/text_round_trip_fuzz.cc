// Any bytes: encoding and decoding gives them back, the incremental detokenizer agrees, no control token
// appears, whichever way words are cut.
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer_builder.h"
#include "text/word_scanner.h"

namespace {

using namespace stoker;

// The demo's vocabulary with some merges, behind each of the known patterns.
std::vector<TokenizerPtr> tokenizers() {
  std::vector<TokenizerPtr> result = {
      Tokenizer::from_json(build_tokenizer_json(builder_default_words()), "demo")};
  for (int i = 0; i <= static_cast<int>(WordPattern::kSpacesAtEnd); ++i) {
    Json json = build_tokenizer_json({"user"});
    Json byte_level = json.at("pre_tokenizer");
    Json split =
        Json::object({{"type", "Split"},
                      {"pattern", Json::object({{"Regex", pattern_regex(static_cast<WordPattern>(i))}})},
                      {"behavior", "Isolated"},
                      {"invert", false}});
    json.set("pre_tokenizer",
             Json::object({{"type", "Sequence"}, {"pretokenizers", Json::Array{split, byte_level}}}));
    Json model = json.at("model");
    Json vocabulary = model.at("vocab");
    int64_t id = 1000;
    for (const char* token : {"th", "the", "\u00C3\u00A9", "aa", "aaaa"}) vocabulary.set(token, id++);
    model.set("vocab", vocabulary);
    model.set("merges", Json::Array{"t h", "th e", "\u00C3 \u00A9", "a a", "aa aa"});
    json.set("model", model);
    result.push_back(Tokenizer::from_json(json, "patterns"));
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<TokenizerPtr> all = tokenizers();
  if (size == 0) return 0;
  const TokenizerPtr& tokenizer = all[data[0] % all.size()];
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<int32_t> ids = tokenizer->encode(text);
  if (tokenizer->decode(ids) != text) std::abort();
  Detokenizer detokenizer(tokenizer);
  std::string joined;
  for (int32_t id : ids) {
    if (tokenizer->is_control(id)) std::abort();
    joined += detokenizer.push(id);
  }
  if (joined + detokenizer.finish() != text) std::abort();
  if (tokenizer->decode(tokenizer->encode_with_special(text)) != text) std::abort();
  return 0;
}
