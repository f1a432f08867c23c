// Two JSON texts split by a zero byte, a schema and a value: the schema is refused with a sentence or
// validates.
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "text/json_schema.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  size_t split = text.find('\0');
  if (split == std::string_view::npos) return 0;
  Result<Json> schema = Json::try_parse(text.substr(0, split));
  Result<Json> value = Json::try_parse(text.substr(split + 1));
  if (!schema || !value) return 0;
  try {
    std::optional<std::string> problem = JsonSchema(*schema, "tool").validate(*value);
    if (problem && problem->empty()) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) std::abort();
  }
  return 0;
}
