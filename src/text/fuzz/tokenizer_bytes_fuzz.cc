// Any bytes as a SentencePiece or a tiktoken file: a tokenizer that takes text, or a refusal with a sentence.
// The first byte chooses the format.
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "text/sentencepiece_file.h"
#include "text/tiktoken_file.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    Json json = data[0] % 2 == 0 ? sentencepiece_json(bytes, nullptr, "file")
                                 : tiktoken_json(bytes, TiktokenKind::kQwen, nullptr, "file");
    TokenizerPtr tokenizer = Tokenizer::from_json(json, "file");
    tokenizer->decode(tokenizer->encode("the quick  fox \xFF\xC3 e\xCC\x81"));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) std::abort();
  }
  return 0;
}
