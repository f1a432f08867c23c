// Each format against texts written by hand after the formats' public descriptions and the shared cases,
// whole and in pieces.
#include <gtest/gtest.h>

#include "text/testing/tokenizers.h"
#include "text/testing/turn_streams.h"

namespace stoker {
namespace {

// "reasoning | content | name(arguments) name(arguments)!", with '!' for a call that has a problem; empty
// parts in front are left out.
std::string show_turn(const ParsedTurn& turn) {
  std::string text;
  if (!turn.reasoning.empty()) text += turn.reasoning + " | ";
  if (!turn.content.empty()) text += turn.content + " | ";
  for (const ParsedCall& call : turn.calls) {
    text += call.call.name;
    text += call.problem ? "! " : "(" + call.call.arguments.dump() + ") ";
  }
  if (!turn.problems.empty()) text += "?";
  return text;
}

struct FormatCase {
  const char* name;  // unique; with the id of the shared case it covers
  const char* format;
  std::string text;
  std::string expected;
};

void PrintTo(const FormatCase& c, std::ostream* out) { *out << c.name; }

const std::vector<ToolSchema>& case_tools() {
  static const std::vector<ToolSchema> tools = {
      {"typed", "", Json::parse(R"({"type": "object", "properties": {
          "n": {"type": "integer"}, "s": {"type": "string"}, "b": {"type": "boolean"},
          "o": {"type": "object"}, "l": {"type": ["array", "null"]}, "any": {},
          "ref": {"$ref": "#/$defs/count"}, "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
          "$defs": {"count": {"type": "number"}}})")}};
  return tools;
}

// One test each, named by the id of the shared case.
const FormatCase kSharedCases[] = {
    {"TCP_01", "hermes",
     "<tool_call>\n{\"name\": \"write_file\", \"arguments\": {\"path\": \"n.md\", \"text\": \"stop at "
     "</tool_call> "
     "here\"}}\n</tool_call>",
     R"(write_file({"path":"n.md","text":"stop at </tool_call> here"}) )"},
    {"TCP_03", "hermes",
     "<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": "
     "\"b\", "
     "\"arguments\": {\"y\": 2}}\n</tool_call>",
     R"(a({"x":1}) b({"y":2}) )"},
    {"TCP_05", "hermes",
     "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"f\", "
     "\"arguments\": {\"n\": 123, \"s\": \"123\"}}\n</tool_call>",
     R"(now({}) f({"n":123,"s":"123"}) )"},
    {"TCP_07", "hermes",
     "<think>\nmaybe <tool_call>{\"name\": \"run\", \"arguments\": {\"c\": \"x=1\"}}</tool_call> "
     "works\n</think>\n\n<tool_call>\n{\"name\": \"run\", \"arguments\": {\"c\": \"x=1\"}}\n</tool_call>",
     "maybe <tool_call>{\"name\": \"run\", \"arguments\": {\"c\": \"x=1\"}}</tool_call> works | "
     "run({\"c\":\"x=1\"}) "},
    {"TCP_07_opened_by_the_prompt", "hermes",
     "maybe <tool_call>{\"name\": \"run\" </think>\n<tool_call>{\"name\": \"run\", \"arguments\": "
     "{}}</tool_call>",
     "maybe <tool_call>{\"name\": \"run\"  | run({}) "},
    {"TCP_07_llama", "llama3_json",
     "{\"name\": \"a\", \"parameters\": {}} or not </think>{\"name\": \"b\", \"parameters\": {}}",
     "{\"name\": \"a\", \"parameters\": {}} or not  | b({}) "},
    {"TCP_09", "hermes",
     R"(<tool_call>{"name": "write_file", "parameters": {"path": "a.txt", "content": "hi"}}</tool_call>)",
     R"(write_file({"path":"a.txt","content":"hi"}) )"},
    {"TCP_11_cut", "hermes", R"(<tool_call>{"name": "f", "arguments": {"name": "home)", "f! "},
    {"TCP_11_whole", "hermes",
     R"(<tool_call>{"name": "f", "arguments": {"name": "home_page", "k": 1}}</tool_call>)",
     R"(f({"name":"home_page","k":1}) )"},
    {"TCP_13_bare", "llama3_json", R"({"name": "web_search", "parameters": {"query": "x"}})",
     R"(web_search({"query":"x"}) )"},
    {"TCP_13_tag", "llama3_json", R"(<|python_tag|>{"name": "web_search", "parameters": {"query": "x"}})",
     R"(web_search({"query":"x"}) )"},
    {"TCP_13_type", "llama3_json",
     R"({"type": "function", "name": "web_search", "parameters": {"query": "x", "timeout": 12000}})",
     R"(web_search({"query":"x","timeout":12000}) )"},
    {"TCP_13_prose", "llama3_json", R"(Here is a user: {"name": "Alice"})",
     R"(Here is a user: {"name": "Alice"} | )"},
    {"TCP_13_object_that_is_no_call", "llama3_json", R"({"name": "Alice", "age": 3} is a user)",
     R"({"name": "Alice", "age": 3} is a user | )"},
    {"TCP_15", "pythonic",
     "To answer, I check both.\n\n[get_todays_date(), get_weather(location=\"Dublin, Ireland\", "
     "date=\"2025-04-14\")]",
     R"(To answer, I check both. | get_todays_date({}) get_weather({"location":"Dublin, Ireland","date":"2025-04-14"}) )"},
    {"TCP_17", "qwen3_coder",
     "<tool_call>\n<function=edit>\n<parameter=old>\n    if x:\n        return "
     "1\n\n</parameter>\n</function>\n</tool_call>",
     R"(edit({"old":"    if x:\n        return 1\n"}) )"},
    {"TCP_19", "llama3_json", R"(<|python_tag|>foo.call(payload={"name":"bar","parameters":{}})", "foo! "},
    {"TCP_19_json", "llama3_json",
     R"({"name": "foo", "parameters": {"payload": oops {"name": "bar", "parameters": {}}}})", "foo! "},
};

const FormatCase kFormatCases[] = {
    {"llama_function_names_the_tool", "llama3_json",
     R"({"type": "function", "function": "f", "parameters": {"a": 1}})", R"(f({"a":1}) )"},
    {"llama_several", "llama3_json",
     R"({"name": "a", "parameters": {}}; {"name": "b", "parameters": {"x": "; "}} bye)",
     R"(bye | a({}) b({"x":"; "}) )"},
    {"llama_builtin", "llama3_json", R"(<|python_tag|>brave_search.call(query="it's \u00e9"))",
     R"(brave_search({"query":"it's é"}) )"},
    {"llama_code_is_no_call", "llama3_json", "<|python_tag|>x = 1", "x = 1 | ?"},
    {"pythonic_values", "pythonic",
     "[f(a=-1.5e3, b=0x1F, c=1_000, d=.5, e=5., g=(1, 2), h=(3), i=(4,), j=[], k={'x': None, \"y\": True},)]",
     R"(f({"a":-1500.0,"b":31,"c":1000,"d":0.5,"e":5.0,"g":[1,2],"h":3,"i":[4],"j":[],"k":{"x":null,"y":true}}) )"},
    {"pythonic_strings", "pythonic",
     "[f(a='it\\'s', b=\"\\x41\\u00e9\\101\\n\", c='''q\"\n'q''', d=r'\\d', e='x' \"y\", g='\\ud83d\\ude00', "
     "h='\\q')]",
     R"(f({"a":"it's","b":"AéA\n","c":"q\"\n'q","d":"\\d","e":"xy","g":"😀","h":"\\q"}) )"},
    {"pythonic_bad_value_leaves_the_others", "pythonic", "[f(a=oops), g(), h(1), i(a=[1 2], b=')'), j(x='')]",
     R"(f! g({}) h! i! j({"x":""}) )"},
    {"pythonic_known_tool_by_position", "pythonic", "[typed(3), g()]", R"(typed! g({}) )"},
    {"pythonic_not_at_the_start_of_a_line", "pythonic", "see [f(x=1)] and\n[a] [f(x)]",
     "see [f(x=1)] and\n[a] [f(x)] | "},
    {"pythonic_cut_off", "pythonic", "[f(a=1), g(b='x", "f({\"a\":1}) g! ?"},
    {"pythonic_not_closed", "pythonic", "[f(a=1)", "f({\"a\":1}) ?"},
    {"llama4_tags", "llama4_pythonic", "Hi<|python_start|>[f(a=1), g(b=\"<|python_end|>\")]<|python_end|>",
     R"(Hi | f({"a":1}) g({"b":"<|python_end|>"}) )"},
    {"llama4_json", "llama4_pythonic",
     R"(<|python_start|>{"name": "f", "parameters": {"a": 1}}<|python_end|>)", R"(f({"a":1}) )"},
    {"qwen3_coder_types", "qwen3_coder",
     "Go.\n<tool_call>\n<function=typed>\n<parameter=n>\n5\n</parameter>\n<parameter=s>\n5\n</parameter>\n"
     "<parameter=b>\nTrue\n</parameter>\n<parameter=o>\n{\"a\": [1]}\n</parameter>\n<parameter=l>\nnull\n"
     "</parameter>\n<parameter=any>\n[1]\n</parameter>\n<parameter=ref>\n1.50\n</"
     "parameter>\n<parameter=maybe>\n"
     "null\n</parameter>\n<parameter=unknown>\n7\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
     "<function=g>\n</function>\n</tool_call>",
     R"(Go. | typed({"n":5,"s":"5","b":true,"o":{"a":[1]},"l":null,"any":[1],"ref":1.5,"maybe":null,"unknown":"7"}) g({}) )"},
    {"qwen3_coder_value_holds_tags", "qwen3_coder",
     "<tool_call>\n<function=w>\n<parameter=t>\na </parameter> b </function> </tool_call> <tool_call>\n"
     "</parameter>\n</function>\n</tool_call>",
     R"(w({"t":"a </parameter> b </function> </tool_call> <tool_call>"}) )"},
    {"qwen3_coder_without_the_first_tag", "qwen3_coder",
     "<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>", R"(f({"a":"x"}) )"},
    {"qwen3_coder_cut_off", "qwen3_coder", "<tool_call>\n<function=f>\n<parameter=a>\nx\n</param", "f! "},
    {"qwen3_coder_type_that_does_not_fit", "qwen3_coder",
     "<tool_call><function=typed><parameter=n>five</parameter></function></tool_call>",
     R"(typed({"n":"five"}) )"},
    {"mistral_list", "mistral",
     R"(Hi[TOOL_CALLS] [{"name": "a", "arguments": {"x": "[TOOL_CALLS]"}, "id": "abcdefghi"}, {"name": "b", "arguments": "{}"}])",
     R"(Hi | a({"x":"[TOOL_CALLS]"}) b({}) )"},
    {"mistral_names", "mistral",
     R"([TOOL_CALLS]add[ARGS]{"a": 3.5}[TOOL_CALLS]sub{"b": 4}[TOOL_CALLS]mul[CALL_ID]c1[ARGS]{})",
     R"(add({"a":3.5}) sub({"b":4}) mul({}) )"},
    {"mistral_thinking", "mistral", R"([THINK]hm [TOOL_CALLS]x{}[/THINK][TOOL_CALLS]f[ARGS]{"a": 1})",
     R"(hm [TOOL_CALLS]x{} | f({"a":1}) )"},
    {"mistral_broken", "mistral", R"([TOOL_CALLS]f[ARGS]{"a": 1,}[TOOL_CALLS]g[ARGS]{}[TOOL_CALLS]h)",
     "f! g({}) h! "},
    {"mistral_broken_list", "mistral",
     R"([TOOL_CALLS][{"name": "a", "arguments": {}}, {"name": "b", "arguments": {]}])", "a({}) b! "},
    {"deepseek_v3", "deepseek",
     "ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{\"a\": "
     "\"```\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<"
     "｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     R"(ok | get({"a":"```"}) now({}) )"},
    {"deepseek_v31", "deepseek",
     "</think>ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{\"a\": "
     "\"<｜tool▁call▁end｜>\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{}<"
     "｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     R"(ok | get({"a":"<｜tool▁call▁end｜>"}) function({}) )"},
    {"deepseek_r1_thinking", "deepseek",
     "<think>\nhm\n</"
     "think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
     "1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     R"(hm | f({"a":1}) )"},
    {"deepseek_broken", "deepseek",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\" "
     "1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<"
     "｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>h",
     "f! g({}) h! "},
    {"deepseek_v32", "deepseek",
     "I look.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get\">\n<｜DSML｜parameter name=\"a\" "
     "string=\"true\"> </｜DSML｜parameter> \"x\"\n</｜DSML｜parameter>\n<｜DSML｜parameter name=\"n\" "
     "string=\"false\">[1.50, {\"k\": "
     "null}]</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n</"
     "｜DSML｜function_calls>",
     R"(I look. | get({"a":" </｜DSML｜parameter> \"x\"\n","n":[1.5,{"k":null}]}) now({}) )"},
    {"deepseek_v32_broken", "deepseek",
     "<｜DSML｜function_calls><｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"n\" "
     "string=\"false\">1,5</｜DSML｜parameter></｜DSML｜invoke><｜DSML｜invoke name=\"g\"></｜DSML｜invoke>"
     "<｜DSML｜invoke name=\"h\">oops</｜DSML｜function_calls>bye",
     "bye | f! g({}) h! "},
    {"deepseek_v32_cut", "deepseek",
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" "
     "string=\"true\">ab",
     "f! "},
    {"gemma_function", "gemma",
     "Sure.<start_function_call>call:w{city:<escape>Pa\"r{i}s, "
     "<x><escape>,n:3,o:{k:[true,<escape>x<escape>],e:{}}}"
     "<end_function_call><start_function_call>call:now{}<end_function_call>",
     R"(Sure. | w({"city":"Pa\"r{i}s, <x>","n":3,"o":{"k":[true,"x"],"e":{}}}) now({}) )"},
    {"gemma4", "gemma",
     "<|channel>thought\nhm<channel|><|tool_call>call:w{city:<|\"|>\"P\"<|\"|>,\"n\":-1.50,<|\"|>k<|\"|>:"
     "null}<tool_call|>",
     R"(hm | w({"city":"\"P\"","n":-1.5,"k":null}) )"},
    {"gemma_tool_code", "gemma", "I look.\n```tool_code\nf(a=1)\ng(b='```')\n```\nThen.",
     "I look.\n\nThen. | f({\"a\":1}) g({\"b\":\"```\"}) "},
    {"gemma_print", "gemma", "```tool_code\nprint(api.f(a=1))\n```", "api.f({\"a\":1}) "},
    {"gemma_fenced_json", "gemma", "```json\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}\n```",
     R"(f({"a":1}) )"},
    {"gemma_list", "gemma", "[f(a=\"x\")]", R"(f({"a":"x"}) )"},
    {"gemma_broken", "gemma",
     "<start_function_call>call:f{a:}<end_function_call><start_function_call>call:g{a:<escape>x<end_function_"
     "call>",
     "f! g! "},
    {"gemma_code_is_content", "gemma", "```python\nx = 1\n```", "```python\nx = 1\n``` | "},
    {"openai_message", "openai_json",
     R"({"role": "assistant", "content": "hey", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": \"\\u00e9\\ud83d\\ude00\"}"}}, {"id": "2", "type": "function", "function": {"name": "g", "arguments": "{}"}}]})",
     R"(hey | f({"a":"é😀"}) g({}) )"},
    {"openai_without_calls", "openai_json", R"({"role": "assistant", "content": "hey", "tool_calls": null})",
     "hey | "},
    {"openai_list", "openai_json",
     R"([{"function": {"name": "f", "arguments": {"a": 1}}}, {"name": "g", "arguments": {}}])",
     R"(f({"a":1}) g({}) )"},
    {"openai_one", "openai_json", R"({"name": "f", "arguments": {"a": 12345678901234567890}})",
     R"(f({"a":12345678901234567890}) )"},
    {"openai_old", "openai_json", R"({"content": null, "function_call": {"name": "f", "arguments": "{}"}})",
     "f({}) "},
    {"openai_answer_in_json", "openai_json", R"({"answer": 42})", R"({"answer": 42} | )"},
    {"openai_list_that_is_no_call", "openai_json", R"([1, 2] are numbers)", R"([1, 2] are numbers | )"},
    {"openai_bad_arguments", "openai_json",
     R"({"tool_calls": [{"function": {"name": "f", "arguments": "{\"a\": "}}, {"function": {"name": "g", "arguments": "{}"}}]})",
     "f! g({}) "},
    {"fenced_json", "fenced_json",
     "Do:\n```json\n{\"name\": \"f\", \"arguments\": {\"a\": \"```\"}}\n```\nthen ```x```\n```json\n{\"a\": "
     "2}\n```\n"
     "```\n[{\"name\": \"g\", \"arguments\": {}}]\n```",
     "Do:\n\nthen ```x```\n```json\n{\"a\": 2}\n``` | f({\"a\":\"```\"}) g({}) "},
    {"fenced_json_several", "fenced_json",
     "```tool_call\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}\n```",
     "f({}) g({}) "},
    {"fenced_json_broken", "fenced_json",
     "```json\n{\"name\": \"f\", \"arguments\": {\"a\" 1}}\n```\n```json\n{\"name\": \"g\", \"arguments\": "
     "{}}\n```",
     "f! g({}) "},
    {"fenced_json_not_closed", "fenced_json", "```json\n{\"name\": \"f\", \"arguments\": {}}\n", "f({}) ?"},
};

void check_case(const FormatCase& c) {
  auto parser = make_tool_call_parser(c.format);
  ParseOptions options{.thinking = ThinkingStart::kUnknown, .tools = case_tools()};
  ParsedTurn turn = parser->parse(c.text, options);
  EXPECT_EQ(show_turn(turn), c.expected) << c.name << ": " << c.text;
  EXPECT_EQ(turn_fault(turn, c.text), "") << c.name;
  for (size_t size : {1, 3, 7}) {
    EXPECT_EQ(stream_fault(*parser, c.text, [&] { return size; }, options), "") << c.name;
  }
}

class SharedCase : public testing::TestWithParam<FormatCase> {};

TEST_P(SharedCase, IsReadWholeAndInPieces) { check_case(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Formats, SharedCase, testing::ValuesIn(kSharedCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Formats, EachIsReadWholeAndInPieces) {
  for (const FormatCase& c : kFormatCases) check_case(c);
}

std::vector<FormatCase> all_cases() {
  std::vector<FormatCase> cases(std::begin(kSharedCases), std::end(kSharedCases));
  cases.insert(cases.end(), std::begin(kFormatCases), std::end(kFormatCases));
  return cases;
}

// Every prefix, in pieces of any sizes, for every start of thinking: a stream equals the whole form of the
// prefix, and raises nothing (TCP-11).
TEST(Formats, TCP_11_EveryPrefixStreamsAsItIsReadWhole) {
  RandomStream random({.run_seed = 31});
  for (const FormatCase& c : all_cases()) {
    auto parser = make_tool_call_parser(c.format);
    for (size_t cut = 0; cut <= c.text.size(); ++cut) {
      std::string_view prefix = std::string_view(c.text).substr(0, cut);
      ParseOptions options{.thinking = static_cast<ThinkingStart>(cut % 3), .tools = case_tools()};
      size_t most = 1 + random.below(9);
      std::string fault = stream_fault(*parser, prefix, [&] { return 1 + random.below(most); }, options);
      ASSERT_EQ(fault, "") << c.name << " cut at " << cut;
      ASSERT_EQ(turn_fault(parser->parse(prefix, options), prefix), "") << c.name << " cut at " << cut;
    }
  }
}

// Each format's texts with bytes lost, repeated and moved, read by every format.
TEST(Formats, DamagedTextStreamsAsItIsReadWhole) {
  RandomStream random({.run_seed = 32});
  std::vector<std::unique_ptr<const ToolCallParser>> parsers;
  for (const ToolCallFormat& format : tool_call_formats())
    parsers.push_back(make_tool_call_parser(format.name));
  std::vector<FormatCase> cases = all_cases();
  for (int round = 0; round < 3000; ++round) {
    std::string text = cases[random.below(cases.size())].text;
    for (size_t i = 1 + random.below(4); i > 0 && !text.empty(); --i) {
      size_t at = random.below(text.size());
      if (random.below(2) == 0) {
        text.erase(at, 1 + random.below(5));
      } else {
        text.insert(at, text.substr(random.below(text.size()), random.below(20)));
      }
    }
    const ToolCallParser& parser = *parsers[random.below(parsers.size())];
    ParseOptions options{.thinking = static_cast<ThinkingStart>(random.below(3)), .tools = case_tools()};
    ASSERT_EQ(stream_fault(parser, text, [&] { return 1 + random.below(5); }, options), "") << text;
    ASSERT_EQ(turn_fault(parser.parse(text, options), text), "") << text;
  }
}

TEST(Formats, NumbersStayAsWritten) {
  std::string_view arguments = R"({"a": 1.50, "b": 1E+2, "c": 123456789012345678901234567890, "d": -0})";
  ParsedTurn json = make_tool_call_parser("hermes")->parse(R"(<tool_call>{"name": "f", "arguments": )" +
                                                           std::string(arguments) + "}</tool_call>");
  EXPECT_EQ(json.calls.at(0).arguments_text, arguments);
  ParsedTurn turn =
      make_tool_call_parser("pythonic")->parse("[f(a=1.50, b=1E+2, c=123456789012345678901234567890)]");
  EXPECT_EQ(turn.calls.at(0).arguments_text,
            R"({"a": 1.50, "b": 1E+2, "c": 123456789012345678901234567890})");
}

// Openings that never close and long runs: a reader that went over them again and again would take minutes.
TEST(Formats, LongTextsTakeLinearTime) {
  for (const ToolCallFormat& format : tool_call_formats()) {
    auto parser = make_tool_call_parser(format.name);
    for (std::string_view piece :
         {"<tool_call>{\"", "<tool_call>{\"a\":[\"", "[f(a=", "[TOOL_CALLS]", "```json\n{\"", "{\"name\": \"",
          "<start_function_call>call:f{a:", "<｜tool▁call▁begin｜>",
          "<tool_call><function=f><parameter=a></parameter>", "<", "[", " \n", "</think", "\\u"}) {
      std::string text;
      while (text.size() < 50000) text += piece;
      ParsedTurn turn = parser->parse(text);
      EXPECT_LE(turn.content.size() + turn.reasoning.size(), text.size()) << format.name;
    }
  }
}

}  // namespace
}  // namespace stoker
