#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "environment/answer.h"
#include "environment/calculator/calculator.h"

// Any bytes give a short result or a short error, and the number read from any text is canonical.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  stoker::ToolResult result = stoker::calculate(text);
  if (result.content.size() > 60 || result.is_error != result.content.starts_with("error: ")) std::abort();
  std::optional<std::string> number = stoker::last_number(text);
  if (number && stoker::last_number(*number) != number) std::abort();
  return 0;
}
