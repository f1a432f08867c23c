// Any text in any format, in any pieces: the parser neither crashes nor reports a call that must not be run
// as one that may, and the streamed turn equals the whole one. The first byte picks the format and how
// thinking starts, the second the pieces.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "text/testing/turn_streams.h"

namespace {

const stoker::ToolCallParser& parser_of(size_t index) {
  static const auto parsers = [] {
    std::vector<std::unique_ptr<const stoker::ToolCallParser>> all;
    for (const auto& format : stoker::tool_call_formats()) {
      all.push_back(stoker::make_tool_call_parser(format.name));
    }
    return all;
  }();
  return *parsers[index % parsers.size()];
}

const std::vector<stoker::ToolSchema>& fuzz_tools() {
  static const std::vector<stoker::ToolSchema> tools = {
      {"f", "", stoker::Json::parse(R"({"properties": {"n": {"type": "integer"}, "o": {}}})")}};
  return tools;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const stoker::ToolCallParser& parser = parser_of(data[0] / 3);
  stoker::ParseOptions options{.thinking = static_cast<stoker::ThinkingStart>(data[0] % 3),
                               .tools = fuzz_tools()};
  uint32_t state = data[1];
  auto piece_size = [&] {
    state = state * 1664525 + 1013904223;
    return size_t{1} + (state >> 24) % (1 + data[1] % 16);
  };
  std::string fault = stoker::turn_fault(parser.parse(text, options), text);
  if (fault.empty()) fault = stoker::stream_fault(parser, text, piece_size, options);
  if (fault.empty()) return 0;
  std::fprintf(stderr, "%s\n", fault.c_str());
  std::abort();
}
