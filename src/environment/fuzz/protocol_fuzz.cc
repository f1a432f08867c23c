#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "environment/command/protocol.h"
#include "io/line_splitter.h"

// Whatever a process writes: the lines do not depend on how its bytes were cut, every line is a message or
// stray, and every result gives a value or a failure.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  LineSplitter whole(4096), cut(4096);
  std::string lines_whole, lines_cut;
  auto decode = [&](std::string_view line) {
    (lines_whole += line) += '\n';
    const ProtocolMessage message = decode_message(line);
    const auto* answer = std::get_if<ProtocolAnswer>(&message);
    if (answer == nullptr) return;
    if (const auto* error = std::get_if<ProtocolError>(&answer->content)) {
      if (error->failure().reason.empty()) std::abort();
      return;
    }
    const Json& result = std::get<Json>(answer->content);
    decode_ping(result);
    const bool understood = decode_greeting(result).ok() + decode_tools(result).ok() +
                            decode_reset(result).ok() + decode_step(result).ok() + decode_call(result).ok() +
                            decode_score(result).ok() + decode_snapshot(result).ok();
    const bool restored = decode_restore(result).ok();
    if (restored !=
        (decode_tools(result).ok() || result.find("tools") == nullptr || result.at("tools").is_null())) {
      std::abort();
    }
    if (understood && result.as_object().empty()) std::abort();
  };
  const bool fits = whole.feed(bytes, decode);
  bool fits_cut = true;
  for (size_t i = 0; i < bytes.size() && fits_cut; ++i) {
    fits_cut = cut.feed(bytes.substr(i, 1), [&](std::string_view line) { (lines_cut += line) += '\n'; });
  }
  if (fits != fits_cut || lines_whole != lines_cut) std::abort();
  return 0;
}
