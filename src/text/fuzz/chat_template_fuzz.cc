// Any template: it compiles and renders within its limits, or is refused with a sentence. What is rendered is
// text of which every byte has a source.
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/chat_template.h"
#include "text/jinja/json_values.h"
#include "text/jinja/template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  static const ChatInput input = [] {
    auto value = [](const char* json) { return *jinja::parse_json_value(json, {Author::kUser, false}); };
    ChatInput made;
    made.messages = chat_messages(value(
        R"([{"role":"system","content":"s"},{"role":"user","content":"a\nb"},{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":{"x":[1,2.5,null,true]}}}]},{"role":"tool","content":"r"}])"));
    made.tools = value(R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])");
    return made;
  }();
  std::string_view source(reinterpret_cast<const char*>(data), size);
  Result<jinja::Template> compiled = jinja::Template::compile(source);
  if (!compiled) {
    if (compiled.failure().message.empty()) std::abort();
    return 0;
  }
  jinja::RenderLimits limits{.max_steps = 20000, .max_bytes = size_t{1} << 20};
  jinja::Variables variables = {{"messages", input.messages}, {"tools", input.tools}};
  Result<jinja::Rendered> rendered = compiled->render(variables, {}, limits);
  if (!rendered) {
    if (rendered.failure().message.empty()) std::abort();
    return 0;
  }
  size_t end = rendered->text.ranges().empty() ? 0 : rendered->text.ranges().back().end;
  if (end != rendered->text.size() || end > limits.max_bytes) std::abort();
  return 0;
}
