#include "text/tool_call_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/parsers/formats.h"

namespace stoker {
namespace {

using BodyReader = Reading<bool> (*)(TurnScan&);

struct KnownFormat {
  const char* name;
  const char* description;
  BodyReader read;
  bool reads_tools = false;
};

constexpr KnownFormat kKnownFormats[] = {
    {"deepseek",
     "DeepSeek V3, R1 (name and fenced JSON), V3.1 (name, separator, JSON) between call tokens; V3.2's "
     "markup",
     read_deepseek},
    {"fenced_json", "JSON calls in ``` fences, the rest is content", read_fenced_json},
    {"gemma", "Gemma: call:NAME{...} between call tokens, or calls in ```tool_code and ```json fences",
     read_gemma, true},
    {"hermes", "Hermes, Qwen2.5, Qwen3: JSON between <tool_call> and </tool_call>", read_hermes},
    {"llama3_json", "Llama 3.x: JSON at the start or behind <|python_tag|>, several split by ';'",
     read_llama3_json, true},
    {"llama4_pythonic", "Llama 4: [f(a=1), g()], also between <|python_start|> and <|python_end|>",
     read_pythonic, true},
    {"mistral", "Mistral: [TOOL_CALLS][{...}] or [TOOL_CALLS]name[ARGS]{...}", read_mistral},
    {"none", "no calls: the text behind the reasoning is content", read_plain},
    {"openai_json", "OpenAI: a message with tool_calls, a list of calls, or one call, as JSON",
     read_openai_json},
    {"pythonic", "[f(a=1), g()] at the start of a line", read_pythonic, true},
    {"qwen3_coder", "Qwen3-Coder: <function=f><parameter=p>...</parameter></function> in <tool_call> tags",
     read_qwen3_coder, true},
};

Reading<bool> read_turn(TurnScan& scan, BodyReader read_body) {
  co_await read_reasoning(scan);
  while (co_await read_body(scan)) {
  }
  co_return true;
}

class FormatStream final : public TurnStream {
 public:
  FormatStream(BodyReader read, const ParseOptions& options)
      : options_(options),
        scan_{.in = {}, .out = TurnBuilder(), .options = options_},
        reader_(read_turn(scan_, read)) {
    reader_.start();
  }

  std::vector<TurnDelta> feed(std::string_view piece) override {
    if (piece.empty()) return {};
    scan_.in.append(piece);
    scan_.in.resume();
    return scan_.out.take_deltas(false);
  }

  End finish() override {
    scan_.in.end();
    scan_.in.resume();
    scan_.out.hold(false);
    End end{scan_.out.take_deltas(true), {}};
    end.turn = std::move(scan_.out.turn());
    return end;
  }

 private:
  ParseOptions options_;  // each is referred to by the next
  TurnScan scan_;
  Reading<bool> reader_;
};

class FormatParser final : public ToolCallParser {
 public:
  FormatParser(BodyReader read, bool reads_tools) : read_(read), reads_tools_(reads_tools) {}

  ParsedTurn parse(std::string_view text, const ParseOptions& options) const override {
    TurnScan scan{.in = TurnInput(text), .out = TurnBuilder(TurnBuilder::Deltas::kNone), .options = options};
    Reading<bool> reader = read_turn(scan, read_);
    reader.start();
    return std::move(scan.out.turn());
  }
  std::unique_ptr<TurnStream> stream(const ParseOptions& options) const override {
    return std::make_unique<FormatStream>(read_, options);
  }
  bool reads_tools() const override { return reads_tools_; }

 private:
  BodyReader read_;
  bool reads_tools_;
};

}  // namespace

std::vector<ToolCallFormat> tool_call_formats() {
  std::vector<ToolCallFormat> formats;
  for (const KnownFormat& format : kKnownFormats) formats.push_back({format.name, format.description});
  return formats;
}

std::unique_ptr<const ToolCallParser> make_tool_call_parser(std::string_view name) {
  std::string known;
  for (const KnownFormat& format : kKnownFormats) {
    if (format.name == name) return std::make_unique<FormatParser>(format.read, format.reads_tools);
    known += (known.empty() ? "" : ", ") + std::string(format.name);
  }
  throw input_error(fmt::format("There is no tool-call format '{}'; the known ones are {}.", name, known));
}

}  // namespace stoker
