// Any bytes as a GGUF file with a vocabulary: a tokenizer that takes text, or a refusal with a sentence.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/gguf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  // A file in memory, rewritten for each input.
  static const int descriptor = memfd_create("gguf", 0);
  if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size))
    std::abort();
  static const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  try {
    const GgufFile file(path);
    TokenizerPtr tokenizer =
        Tokenizer::from_json(gguf_vocabulary_json(read_gguf_vocabulary(file), "file"), "file");
    tokenizer->decode(tokenizer->encode("the quick  fox \xFF\xC3 e\xCC\x81"));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput || std::string_view(error.what()).empty()) std::abort();
  }
  return 0;
}
