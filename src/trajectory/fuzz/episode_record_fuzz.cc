#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "trajectory/episode_record.h"

// Any bytes are a record that reads back to itself, or a named input error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  stoker::EpisodeRecord record;
  try {
    record = stoker::EpisodeRecord::from_json(stoker::Json::parse(text));
  } catch (const stoker::Error& error) {
    if (error.kind() != stoker::ErrorKind::kInput) std::abort();
    return 0;
  }
  if (!(stoker::EpisodeRecord::from_json(record.to_json()) == record)) std::abort();
  return 0;
}
