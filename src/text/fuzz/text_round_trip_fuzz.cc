// Any bytes: encoding and decoding gives them back, the incremental detokenizer agrees, no control token
// appears.
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/detokenizer.h"
#include "text/tokenizer_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  static const TokenizerPtr tokenizer =
      Tokenizer::from_json(build_tokenizer_json(builder_default_words()), "demo");
  std::string_view text(reinterpret_cast<const char*>(data), size);
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
