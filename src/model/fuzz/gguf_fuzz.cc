// Any bytes: a GGUF file whose tensors lie inside it, or a refusal with a sentence.
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "model/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  try {
    std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
    unsigned sum = 0;
    for (const GgufTensor& tensor : read_gguf(bytes, "model.gguf").tensors) {
      if (gguf_block_layout(tensor.type) == nullptr || tensor.data.empty()) std::abort();
      sum += static_cast<unsigned>(tensor.data.front()) + static_cast<unsigned>(tensor.data.back());
    }
    volatile unsigned kept = sum;
    static_cast<void>(kept);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) std::abort();
  }
  return 0;
}
