#include "cli/text_parse_command.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/json_string.h"
#include "cli/command.h"
#include "text/json_schema.h"
#include "text/json_text.h"
#include "text/tool_call_parser.h"

namespace stoker {
namespace {

struct ParseLine {
  std::string text;
  ParseOptions options;
  bool has_tools = false;
  std::map<std::string, JsonSchema> schemas;  // of the tools, by name
};

ThinkingStart thinking_start(const Json& value, const std::string& place) {
  if (value == Json("open")) return ThinkingStart::kOpen;
  if (value == Json("closed")) return ThinkingStart::kClosed;
  throw input_error(place + ": \"thinking\" is \"open\" or \"closed\"; leave it out where it is unknown.");
}

ParseLine read_parse_line(const std::string& line, size_t number) {
  std::string place = fmt::format("Line {} of the input", number);
  Json json = Json::parse(line, place);
  const Json* text = json.find("text");
  if (text == nullptr || !text->is_string()) {
    throw input_error(place +
                      " has no \"text\" that is a string; write an object such as {\"text\": \"...\"}.");
  }
  ParseLine read{.text = text->as_string(), .options = {}, .schemas = {}};
  if (const Json* thinking = json.find("thinking")) {
    read.options.thinking = thinking_start(*thinking, place);
  }
  const Json* tools = json.find("tools");
  if (tools == nullptr || tools->is_null()) return read;
  if (!tools->is_array()) throw input_error(place + ": \"tools\" must be a list of function schemas.");
  read.has_tools = true;
  for (const Json& tool : tools->as_array()) {
    ToolSchema schema = tool_schema_from_json(tool, place);
    read.schemas.insert_or_assign(schema.name,
                                  JsonSchema(schema.parameters, fmt::format("tool '{}'", schema.name)));
    read.options.tools.push_back(std::move(schema));
  }
  return read;
}

// What keeps a call that was read well from being run: an unknown tool, arguments against its schema.
std::optional<ParseProblem> tool_problem(const ParsedCall& call, const ParseLine& line) {
  if (call.problem || !line.has_tools) return call.problem;
  auto schema = line.schemas.find(call.call.name);
  if (schema == line.schemas.end()) {
    std::string known;
    for (const auto& tool : line.options.tools) known += (known.empty() ? "" : ", ") + tool.name;
    return ParseProblem{
        call.position,
        fmt::format("There is no tool named {}; {}.", Json(call.call.name.substr(0, 64)).dump(),
                    known.empty() ? "there are no tools" : "the tools are: " + known)};
  }
  std::optional<std::string> sentence = schema->second.validate(call.call.arguments);
  if (!sentence) return std::nullopt;
  return ParseProblem{call.position, std::move(*sentence)};
}

Json problem_to_json(const std::optional<ParseProblem>& problem) {
  if (!problem) return Json();
  return Json::object({{"position", problem->position}, {"message", problem->message}});
}

// One line of JSON with numbers as written; what is written twice once.
std::string arguments_json(const ParsedCall& call) {
  Result<Json> written = Json::try_parse(call.arguments_text);
  bool as_written = written && without_duplicates(*written) == *written;
  return as_written ? one_line_json(call.arguments_text) : python_json(call.call.arguments);
}

Json delta_to_json(const TurnDelta& delta) {
  switch (delta.kind) {
    case TurnDelta::Kind::kReasoning:
      return Json::object({{"reasoning", delta.text}});
    case TurnDelta::Kind::kContent:
      return Json::object({{"content", delta.text}});
    case TurnDelta::Kind::kCallStarted:
      return Json::object({{"call", delta.call}, {"name", delta.text}});
    case TurnDelta::Kind::kArguments:
      return Json::object({{"call", delta.call}, {"arguments", delta.text}});
    case TurnDelta::Kind::kCallEnded:
      return Json::object({{"call", delta.call}, {"ended", true}});
  }
  throw internal_error("A delta has a kind that is no member of TurnDelta::Kind.");
}

ParsedTurn parse_streamed(const ToolCallParser& parser, const ParseLine& line, Json& deltas) {
  std::unique_ptr<TurnStream> stream = parser.stream(line.options);
  auto add = [&](const std::vector<TurnDelta>& grown) {
    for (const TurnDelta& delta : grown) deltas.as_array().push_back(delta_to_json(delta));
  };
  for (char byte : line.text) add(stream->feed(std::string_view(&byte, 1)));
  TurnStream::End end = stream->finish();
  add(end.deltas);
  return std::move(end.turn);
}

std::string turn_json(const ParsedTurn& turn, const ParseLine& line) {
  std::string out = "{\"reasoning\": ";
  append_json_string(out, turn.reasoning);
  out += ", \"content\": ";
  append_json_string(out, turn.content);
  out += ", \"calls\": [";
  for (size_t i = 0; i < turn.calls.size(); ++i) {
    const ParsedCall& call = turn.calls[i];
    out += i == 0 ? "{\"name\": " : ", {\"name\": ";
    append_json_string(out, call.call.name);
    out += ", \"arguments\": " + arguments_json(call);
    if (!call.call.id.empty()) out += ", \"id\": " + python_json(Json(call.call.id));
    out += ", \"problem\": " + python_json(problem_to_json(tool_problem(call, line))) + "}";
  }
  Json problems = Json::array();
  for (const ParseProblem& problem : turn.problems) problems.as_array().push_back(problem_to_json(problem));
  return out + "], \"problems\": " + python_json(problems);
}

}  // namespace

void parse_turns(const TextParseArguments& arguments, std::istream& input, std::ostream& output) {
  if (arguments.format == "list") {
    for (const ToolCallFormat& format : tool_call_formats()) {
      Json row = Json::object({{"format", format.name}, {"description", format.description}});
      output << python_json(row) << '\n';
    }
    return;
  }
  std::unique_ptr<const ToolCallParser> parser = make_tool_call_parser(arguments.format);
  std::string text;
  for (size_t number = 1; std::getline(input, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    ParseLine line = read_parse_line(text, number);
    Json deltas = Json::array();
    ParsedTurn turn =
        arguments.stream ? parse_streamed(*parser, line, deltas) : parser->parse(line.text, line.options);
    std::string out = turn_json(turn, line);
    if (arguments.stream) out += ", \"deltas\": " + python_json(deltas);
    output << out << "}\n" << std::flush;
    if (!output)
      throw resource_error("The output could not be written; is its reader gone or the disk full?");
  }
  if (input.bad()) throw resource_error("The input could not be read to its end; try again.");
}

int run_text_parse(const TextParseArguments& arguments) {
  if (arguments.input.empty() || arguments.input == "-" || arguments.format == "list") {
    parse_turns(arguments, std::cin, std::cout);
    return kExitDone;
  }
  std::ifstream file(arguments.input, std::ios::binary);
  if (!file || std::filesystem::is_directory(arguments.input)) {
    throw input_error(fmt::format("{} cannot be read; name a file, or leave it out for standard input.",
                                  arguments.input.string()));
  }
  parse_turns(arguments, file, std::cout);
  return kExitDone;
}

}  // namespace stoker
