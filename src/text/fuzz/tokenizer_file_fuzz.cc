// Any tokenizer.json: it loads and then round-trips text, or is refused with a sentence. The input is a
// sequence of edits of a good file, or, when it starts with '{', a whole file.
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/tokenizer_builder.h"

namespace {

// Every three bytes: a position (of 65,536 in the whole) and the byte to put there.
std::string edited(const std::string& good, const uint8_t* data, size_t size) {
  std::string text = good;
  for (size_t i = 0; i + 2 < size; i += 3) {
    size_t position = (data[i] * 256u + data[i + 1]) * text.size() / 65536;
    text[position] = static_cast<char>(data[i + 2]);
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  static const std::string good = build_tokenizer_json({"ab", "bcd"}).dump();
  std::string text = size > 0 && data[0] == '{' ? std::string(reinterpret_cast<const char*>(data), size)
                                                : edited(good, data, size);
  Result<Json> json = Json::try_parse(text);
  if (!json) return 0;
  try {
    std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::from_json(*json, "tokenizer.json");
    std::string sample = "abcd <|im_end|> bcd \xFF\xC3";
    if (tokenizer->decode(tokenizer->encode(sample)) != sample) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) std::abort();
  }
  return 0;
}
