// Any text: the parser neither crashes nor reports a call that must not be run as one that may.
#include <cstdlib>
#include <string_view>

#include "text/tool_call_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  static const auto parser = stoker::make_tool_call_parser("hermes");
  stoker::ParsedTurn turn = parser->parse(text);
  for (const stoker::ParsedCall& call : turn.calls) {
    if (call.problem && call.problem->position > size) std::abort();
    if (!call.problem && (call.call.name.empty() || !call.call.arguments.is_object())) std::abort();
    if (text.find(call.call.raw) == std::string_view::npos) std::abort();
  }
  return 0;
}
