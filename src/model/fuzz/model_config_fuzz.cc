// Any text as config.json: a configuration that is valid and survives its own writing, or a refusal with a
// sentence.
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "model/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  const Result<Json> json = Json::try_parse(std::string_view(reinterpret_cast<const char*>(data), size), 32);
  if (!json) return 0;
  try {
    const ModelConfig config = model_config_from_json(*json, "config.json");
    validate(config);
    if (model_config_from_json(model_config_to_json(config), "config.json") != config) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) std::abort();
  }
  return 0;
}
