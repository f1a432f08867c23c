// Any bytes: parsing fails with a place, or gives a value whose text reads back to an equal one.

#include <cstdlib>

#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  stoker::Result<stoker::Json> value = stoker::Json::try_parse(text);
  if (!value) return 0;
  stoker::Result<stoker::Json> again = stoker::Json::try_parse(value->dump());
  if (!again || !(*again == *value)) std::abort();
  return 0;
}
