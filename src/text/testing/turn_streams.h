#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_call_parser.h"

namespace stoker {

// What the announced deltas say, joined: a turn without problems, raw texts and values.
struct JoinedDeltas {
  std::string reasoning;
  std::string content;
  std::vector<std::string> names;
  std::vector<std::string> arguments;
  size_t ended = 0;
  std::string fault;  // what no stream may do; empty if nothing

  void add(const std::vector<TurnDelta>& deltas) {
    for (const TurnDelta& delta : deltas) add(delta);
  }
  void add(const TurnDelta& delta) {
    switch (delta.kind) {
      case TurnDelta::Kind::kReasoning:
        reasoning += delta.text;
        return;
      case TurnDelta::Kind::kContent:
        content += delta.text;
        return;
      case TurnDelta::Kind::kCallStarted:
        if (delta.call != names.size()) fault = "a call was announced out of order";
        names.push_back(delta.text);
        arguments.emplace_back();
        return;
      case TurnDelta::Kind::kArguments:
        if (delta.call + 1 != arguments.size()) fault = "arguments grew outside of their call";
        if (delta.call < arguments.size()) arguments[delta.call] += delta.text;
        return;
      case TurnDelta::Kind::kCallEnded:
        if (delta.call + 1 != names.size() || ended != delta.call) fault = "a call ended out of order";
        ++ended;
        return;
    }
  }
};

// Feeds `text` in pieces whose sizes `piece_size` gives and compares with the whole form: empty when the
// stream is right, else what is wrong.
inline std::string stream_fault(const ToolCallParser& parser, std::string_view text,
                                const std::function<size_t()>& piece_size, const ParseOptions& options = {}) {
  auto stream = parser.stream(options);
  JoinedDeltas joined;
  for (size_t at = 0; at < text.size();) {
    std::string_view piece = text.substr(at, piece_size());
    joined.add(stream->feed(piece));
    at += piece.size();
  }
  TurnStream::End end = stream->finish();
  joined.add(end.deltas);
  const ParsedTurn& turn = end.turn;
  if (!joined.fault.empty()) return joined.fault;
  if (turn != parser.parse(text, options)) return "the streamed turn differs from the whole one";
  if (joined.reasoning != turn.reasoning) return "the announced reasoning is " + joined.reasoning;
  if (joined.content != turn.content) return "the announced content is " + joined.content;
  if (joined.names.size() != turn.calls.size()) return "the number of announced calls is wrong";
  if (joined.ended != turn.calls.size()) return "a call was not ended";
  for (size_t i = 0; i < turn.calls.size(); ++i) {
    if (joined.names[i] != turn.calls[i].call.name) return "the announced name is " + joined.names[i];
    if (joined.arguments[i] != turn.calls[i].arguments_text) {
      return "the announced arguments are " + joined.arguments[i];
    }
  }
  return "";
}

// What holds for every turn, whatever the text: empty when it does.
inline std::string turn_fault(const ParsedTurn& turn, std::string_view text) {
  for (const ParsedCall& call : turn.calls) {
    if (call.problem && call.problem->position > text.size()) return "a problem stands behind the text";
    if (call.problem && call.problem->message.empty()) return "a problem has no sentence";
    if (call.problem && call.problem->message.size() > 600) return "a problem's sentence is long";
    if (!call.problem && call.call.name.empty()) return "a call without a name may be run";
    if (!call.problem && !call.call.arguments.is_object()) return "a call without arguments may be run";
    if (text.substr(std::min(call.position, text.size()), call.call.raw.size()) != call.call.raw) {
      return "a call's text does not stand at its position";
    }
  }
  for (const ParseProblem& problem : turn.problems) {
    if (problem.position > text.size()) return "a problem of the turn stands behind the text";
  }
  return "";
}

}  // namespace stoker
