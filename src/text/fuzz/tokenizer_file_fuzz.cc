// Any tokenizer.json: it loads and then encodes any text to tokens with ranges of the text, or is refused
// with a sentence. The input is a sequence of edits of one of the good files, which the first byte picks, or,
// when it starts with '{', a whole file.
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/tokenizer_builder.h"

namespace {

using stoker::Json;

// A vocabulary of characters as SentencePiece's converter writes it.
constexpr const char* kCharacters = R"({"added_tokens": [{"id": 0, "content": "<unk>", "special": true}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": " "}, "content": "_"}]},
  "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": true},
  "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<unk>", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {"<unk>": {"id": "<unk>", "ids": [0], "tokens": ["<unk>"]}}},
  "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "_"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"}]},
  "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": false, "ignore_merges": false,
    "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3, "_": 4, "_ab": 5, "c": 6}, "merges": [["a", "b"], "_ ab"]}})";

constexpr const char* kSteps = R"({"type": "Sequence", "pretokenizers": [
  {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}"}, "behavior": "Isolated", "invert": false},
  {"type": "Split", "pattern": {"Regex": "[^\\s]+|\\s+"}, "behavior": "MergedWithPrevious", "invert": true},
  {"type": "Digits", "individual_digits": true}, {"type": "Punctuation", "behavior": "Contiguous"},
  {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}]})";

const std::vector<std::string>& good_files() {
  static const std::vector<std::string> files = [] {
    Json bytes = stoker::build_tokenizer_json({"ab", "bcd"});
    Json steps = bytes;
    steps.set("pre_tokenizer", Json::parse(kSteps));
    return std::vector<std::string>{bytes.dump(), steps.dump(), Json::parse(kCharacters).dump()};
  }();
  return files;
}

// Every three bytes: a position (of 65,536 in the whole) and the byte to put there.
std::string edited(std::string text, const uint8_t* data, size_t size) {
  for (size_t i = 0; i + 2 < size; i += 3) {
    size_t position = (data[i] * 256u + data[i + 1]) * text.size() / 65536;
    text[position] = static_cast<char>(data[i + 2]);
  }
  return text;
}

void check(const stoker::Tokenizer& tokenizer, std::string_view text) {
  stoker::TextPiece piece{text, stoker::AddedTokens::kAll};
  for (const stoker::EncodedToken& token : tokenizer.encode_pieces({&piece, 1})) {
    if (token.begin > token.end || token.end > text.size() || !tokenizer.has_token(token.id)) std::abort();
  }
  tokenizer.decode(tokenizer.encode(text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  const std::vector<std::string>& files = good_files();
  bool whole = size > 0 && data[0] == '{';
  std::string text = whole      ? std::string(reinterpret_cast<const char*>(data), size)
                     : size > 0 ? edited(files[data[0] % files.size()], data + 1, size - 1)
                                : files[0];
  Result<Json> json = Json::try_parse(text);
  if (!json) return 0;
  try {
    std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::from_json(*json, "tokenizer.json");
    for (const char* sample : {"abcd <|im_end|> bcd 12 \xFF\xC3", "", " a b", "\u00E9!?\n\n"})
      check(*tokenizer, sample);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) std::abort();
  }
  return 0;
}
