// The calls of BFCL's possible answers, written in each format by writers that share nothing with the
// parsers, read back.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "text/testing/tokenizers.h"
#include "text/testing/turn_streams.h"

namespace stoker {
namespace {

struct Call {
  std::string name;
  Json arguments;
};
using Calls = std::vector<Call>;

std::string python_literal(const Json& value) {
  if (value.is_null()) return "None";
  if (value.is_bool()) return value.as_bool() ? "True" : "False";
  if (value.is_string()) {
    std::string text = "'";
    for (char c : value.as_string()) {
      if (c == '\'' || c == '\\') text += '\\';
      text += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    return text + "'";
  }
  if (!value.is_array() && !value.is_object()) return value.dump();
  std::string text;
  if (value.is_array()) {
    for (const Json& element : value.as_array()) text += (text.empty() ? "" : ", ") + python_literal(element);
    return "[" + text + "]";
  }
  for (const auto& [name, member] : value.as_object()) {
    text += (text.empty() ? "" : ", ") + python_literal(name) + ": " + python_literal(member);
  }
  return "{" + text + "}";
}

std::string python_call_text(const Call& call) {
  std::string text;
  for (const auto& [name, value] : call.arguments.as_object()) {
    text += (text.empty() ? "" : ", ") + name + "=" + python_literal(value);
  }
  return call.name + "(" + text + ")";
}

std::string gemma_literal(const Json& value, const std::string& quote) {
  if (value.is_string()) return quote + value.as_string() + quote;
  if (!value.is_array() && !value.is_object()) return value.dump();
  std::string text;
  if (value.is_array()) {
    for (const Json& element : value.as_array())
      text += (text.empty() ? "" : ",") + gemma_literal(element, quote);
    return "[" + text + "]";
  }
  for (const auto& [name, member] : value.as_object()) {
    text += (text.empty() ? "" : ",") + name + ":" + gemma_literal(member, quote);
  }
  return "{" + text + "}";
}

std::string xml_call_text(const Call& call) {
  std::string text = "<tool_call>\n<function=" + call.name + ">\n";
  for (const auto& [name, value] : call.arguments.as_object()) {
    text += "<parameter=" + name + ">\n" + (value.is_string() ? value.as_string() : value.dump()) +
            "\n</parameter>\n";
  }
  return text + "</function>\n</tool_call>";
}

std::string json_call_text(const Call& call, const char* key, bool as_text = false) {
  Json arguments = as_text ? Json(call.arguments.dump()) : call.arguments;
  return Json::object({{"name", call.name}, {key, arguments}}).dump_pretty();
}

std::string each(const Calls& calls, std::string_view before, std::string_view between,
                 std::string_view after, const std::function<std::string(const Call&)>& write) {
  std::string text(before);
  for (size_t i = 0; i < calls.size(); ++i) text += (i == 0 ? "" : std::string(between)) + write(calls[i]);
  return text + std::string(after);
}

// As DeepSeek V3.2 writes it: text as it is, anything else as JSON.
std::string markup_call_text(const Call& call) {
  std::string text = fmt::format("<｜DSML｜invoke name=\"{}\">\n", call.name);
  for (const auto& [name, value] : call.arguments.as_object()) {
    text += fmt::format("<｜DSML｜parameter name=\"{}\" string=\"{}\">{}</｜DSML｜parameter>\n", name,
                        value.is_string(), value.is_string() ? value.as_string() : value.dump());
  }
  return text + "</｜DSML｜invoke>";
}

struct Writer {
  const char* format;
  std::function<std::string(const Calls&)> write;
};

std::vector<Writer> writers() {
  auto json = [](const char* key, bool as_text = false) {
    return [=](const Call& call) { return json_call_text(call, key, as_text); };
  };
  auto openai = [](const Call& call) {
    return Json::object(
               {{"type", "function"},
                {"function", Json::object({{"name", call.name}, {"arguments", call.arguments.dump()}})}})
        .dump();
  };
  auto gemma = [](const char* open, const char* close, const char* quote) {
    return [=](const Call& call) {
      return fmt::format("{}call:{}{}{}", open, call.name, gemma_literal(call.arguments, quote), close);
    };
  };
  auto deepseek = [](const char* front, const char* open, const char* close) {
    return [=](const Call& call) {
      return fmt::format("<｜tool▁call▁begin｜>{}", fmt::format(fmt::runtime(front), call.name)) + open +
             call.arguments.dump() + close + "<｜tool▁call▁end｜>";
    };
  };
  const char* begin = "<｜tool▁calls▁begin｜>";
  const char* end = "<｜tool▁calls▁end｜>";
  auto mistral = [](const Call& call) {
    return "[TOOL_CALLS]" + call.name + "[ARGS]" + call.arguments.dump();
  };
  return {
      {"hermes",
       [=](const Calls& c) {
         return each(c, "<tool_call>\n", "\n</tool_call>\n<tool_call>\n", "\n</tool_call>",
                     json("arguments"));
       }},
      {"hermes",
       [=](const Calls& c) {
         return each(c, "<tool_call>", "</tool_call><tool_call>", "</tool_call>", json("arguments", true));
       }},
      {"qwen3_coder", [=](const Calls& c) { return each(c, "", "\n", "", xml_call_text); }},
      {"llama3_json", [=](const Calls& c) { return each(c, "", "; ", "", json("parameters")); }},
      {"llama3_json",
       [=](const Calls& c) { return each(c, "<|python_tag|>", "<|python_tag|>", "", json("parameters")); }},
      {"pythonic", [=](const Calls& c) { return each(c, "[", ", ", "]", python_call_text); }},
      {"llama4_pythonic",
       [=](const Calls& c) {
         return each(c, "<|python_start|>[", ",", "]<|python_end|>", python_call_text);
       }},
      {"mistral", [=](const Calls& c) { return each(c, "[TOOL_CALLS][", ", ", "]", json("arguments")); }},
      {"mistral", [=](const Calls& c) { return each(c, "", "", "", mistral); }},
      {"deepseek",
       [=](const Calls& c) {
         return each(c, begin, "\n", end, deepseek("function<｜tool▁sep｜>{}", "\n```json\n", "\n```"));
       }},
      {"deepseek",
       [=](const Calls& c) { return each(c, begin, "", end, deepseek("{}<｜tool▁sep｜>", "", "")); }},
      {"deepseek",
       [=](const Calls& c) {
         return each(c, "<｜DSML｜function_calls>\n", "\n", "\n</｜DSML｜function_calls>", markup_call_text);
       }},
      {"gemma",
       [=](const Calls& c) {
         return each(c, "", "", "", gemma("<start_function_call>", "<end_function_call>", "<escape>"));
       }},
      {"gemma",
       [=](const Calls& c) { return each(c, "", "", "", gemma("<|tool_call>", "<tool_call|>", "<|\"|>")); }},
      {"gemma", [=](const Calls& c) { return each(c, "```tool_code\n", "\n", "\n```", python_call_text); }},
      {"openai_json",
       [=](const Calls& c) { return each(c, R"({"content": null, "tool_calls": [)", ", ", "]}", openai); }},
      {"openai_json", [=](const Calls& c) { return each(c, "[", ", ", "]", json("arguments")); }},
      {"fenced_json",
       [=](const Calls& c) { return each(c, "```json\n", "\n```\n```json\n", "\n```", json("arguments")); }},
  };
}

// Parameters' types as the values show them, for the format that writes values as bare text.
std::vector<ToolSchema> tools_of(const Calls& calls) {
  std::vector<ToolSchema> tools;
  for (const Call& call : calls) {
    Json properties = Json::object();
    for (const auto& [name, value] : call.arguments.as_object()) {
      properties.set(name, Json::object({{"type", value.type_name()}}));
    }
    tools.push_back({call.name, "", Json::object({{"properties", properties}})});
  }
  return tools;
}

// The answers with, of each argument's accepted values, the one of rank `choice` (or the last).
std::vector<Calls> bfcl_answers(const std::filesystem::path& file, size_t choice) {
  std::vector<Calls> answers;
  for (const Json& row : read_rows(file)) {
    Calls calls;
    for (const Json& answer : row.at("ground_truth").as_array()) {
      for (const auto& [name, accepted] : answer.as_object()) {
        Json arguments = Json::object();
        for (const auto& [argument, values] : accepted.as_object()) {
          if (values.as_array().empty()) continue;
          arguments.set(argument, values.as_array()[std::min(choice, values.as_array().size() - 1)]);
        }
        // Two calls of one tool may give an argument values of different types.
        calls.push_back({name, std::move(arguments)});
      }
    }
    answers.push_back(std::move(calls));
  }
  return answers;
}

bool types_agree(const Calls& calls) {
  for (const Call& a : calls) {
    for (const Call& b : calls) {
      if (a.name != b.name) continue;
      for (const auto& [name, value] : a.arguments.as_object()) {
        const Json* other = b.arguments.find(name);
        if (other == nullptr || other->is_string() != value.is_string()) return false;
      }
    }
  }
  return true;
}

std::string fault_of(const Writer& writer, const Calls& calls, bool streamed) {
  auto parser = make_tool_call_parser(writer.format);
  std::string text = writer.write(calls);
  ParseOptions options{.thinking = ThinkingStart::kUnknown, .tools = tools_of(calls)};
  ParsedTurn turn = parser->parse(text, options);
  if (!turn.content.empty() || !turn.problems.empty()) return "content or problems: " + text;
  if (turn.calls.size() != calls.size()) return "another number of calls: " + text;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (turn.calls[i].problem) return turn.calls[i].problem->message + ": " + text;
    if (turn.calls[i].call.name != calls[i].name || turn.calls[i].call.arguments != calls[i].arguments) {
      return "read as " + turn.calls[i].call.arguments.dump() + ": " + text;
    }
  }
  return streamed ? stream_fault(*parser, text, [] { return size_t{11}; }, options) : "";
}

TEST(Bfcl, EveryPossibleAnswerIsReadBackInEveryFormat) {
  std::filesystem::path folder = std::filesystem::path(STOKER_SOURCE_DIR) / ".." / "shared" / "data" / "bfcl";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the BFCL files are not in " << folder;
  size_t read = 0;
  std::vector<Writer> all = writers();
  for (const char* name : {"simple_python", "multiple", "parallel", "parallel_multiple", "live_parallel"}) {
    std::filesystem::path file = folder / fmt::format("possible_answer_BFCL_v4_{}.json", name);
    for (size_t choice : {0, 9}) {
      for (const Calls& calls : bfcl_answers(file, choice)) {
        for (const Writer& writer : all) {
          if (writer.format == std::string_view("qwen3_coder") && !types_agree(calls)) continue;
          ASSERT_EQ(fault_of(writer, calls, choice == 0), "") << writer.format << " " << name;
          read += calls.size();
        }
      }
    }
  }
  EXPECT_GT(read, 40000u);
}

// The multi-turn answers are Python calls as they stand; some give arguments by position, which no format
// can.
TEST(Bfcl, MultiTurnAnswersAreReadAsPython) {
  std::filesystem::path file = std::filesystem::path(STOKER_SOURCE_DIR) / ".." / "shared" / "data" / "bfcl" /
                               "possible_answer_BFCL_v4_multi_turn_base.json";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "the BFCL files are not beside the project";
  auto parser = make_tool_call_parser("pythonic");
  size_t read = 0;
  for (const Json& row : read_rows(file)) {
    for (const Json& turn : row.at("ground_truth").as_array()) {
      for (const Json& call : turn.as_array()) {
        const std::string& text = call.as_string();
        size_t bracket = text.find('(');
        std::vector<ToolSchema> tools = {{text.substr(0, bracket), "", Json()}};
        ParsedTurn parsed =
            parser->parse("[" + text + "]", {.thinking = ThinkingStart::kClosed, .tools = tools});
        ASSERT_EQ(parsed.calls.size(), 1u) << text;
        EXPECT_EQ(parsed.calls[0].call.name, text.substr(0, bracket));
        size_t first_end = text.find_first_of("=,'\"[)", bracket);
        bool named = text.at(first_end) == '=' || text.ends_with("()");
        EXPECT_EQ(!parsed.calls[0].problem, named) << text;
        ++read;
      }
    }
  }
  EXPECT_GT(read, 1000u);
}

}  // namespace
}  // namespace stoker
