#include "text/parsers/turn_builder.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/json_text.h"
#include "text/parsers/turn_input.h"

namespace stoker {
namespace {

// Bytes at the end of `text` that begin a character without ending it.
size_t cut_character(std::string_view text) {
  for (size_t size = 1; size <= 3 && size <= text.size(); ++size) {
    std::string_view tail = text.substr(text.size() - size);
    if ((static_cast<unsigned char>(tail[0]) & 0xC0) == 0x80) continue;
    return utf8_step(tail).incomplete ? size : 0;
  }
  return 0;
}

}  // namespace

void TurnBuilder::announce(TurnDelta::Kind kind, size_t call, std::string_view text) {
  if (!deltas_.empty() && deltas_.back().kind == kind && deltas_.back().call == call &&
      kind != TurnDelta::Kind::kCallStarted) {
    deltas_.back().text += text;
  } else {
    deltas_.push_back({kind, call, std::string(text)});
  }
}

void TurnBuilder::add_trimmed(std::string& to, std::string& blanks, std::string_view which,
                              std::string_view text, TurnDelta::Kind kind) {
  if (to.empty()) {
    size_t first = text.find_first_not_of(which);
    if (first == std::string_view::npos) return;
    text.remove_prefix(first);
  }
  size_t last = text.find_last_not_of(which);
  if (last == std::string_view::npos) {
    blanks += text;
    return;
  }
  std::string piece = std::move(blanks);
  piece += text.substr(0, last + 1);
  blanks = text.substr(last + 1);
  to += piece;
  announce(kind, 0, piece);
}

void TurnBuilder::add_reasoning(std::string_view text) {
  add_trimmed(turn_.reasoning, reasoning_blanks_, "\n", text, TurnDelta::Kind::kReasoning);
}

void TurnBuilder::add_content(std::string_view text) {
  add_trimmed(turn_.content, content_blanks_, kTurnBlanks, text, TurnDelta::Kind::kContent);
}

void TurnBuilder::everything_was_reasoning(std::string_view text) {
  turn_ = {};
  deltas_.clear();
  content_blanks_.clear();
  open_ = announced_ = false;
  add_reasoning(text);
}

void TurnBuilder::open_call() {
  if (open_) throw internal_error("A call was opened inside another.");
  turn_.calls.emplace_back();
  open_ = true;
  announced_ = false;
}

void TurnBuilder::drop_call() {
  if (!open_ || announced_) throw internal_error("A call that was announced cannot be dropped.");
  turn_.calls.pop_back();
  open_ = false;
}

void TurnBuilder::announce_call() {
  if (announced_) return;
  announced_ = true;
  size_t index = turn_.calls.size() - 1;
  announce(TurnDelta::Kind::kCallStarted, index, call().call.name);
  if (!call().arguments_text.empty()) announce(TurnDelta::Kind::kArguments, index, call().arguments_text);
}

void TurnBuilder::add_arguments(std::string_view json) {
  if (json.empty()) return;
  call().arguments_text += json;
  if (announced_) announce(TurnDelta::Kind::kArguments, turn_.calls.size() - 1, json);
}

void TurnBuilder::call_problem(size_t position, std::string message) {
  if (!call().problem) call().problem = ParseProblem{position, std::move(message)};
}

void TurnBuilder::close_call(size_t position, std::string_view raw, size_t arguments_begin) {
  ParsedCall& parsed = call();
  parsed.position = position;
  announce_call();
  parsed.call.raw = raw;
  Result<Json> arguments = Json::try_parse(parsed.arguments_text);
  if (arguments) {
    parsed.call.arguments = without_duplicates(*arguments);
    if (!arguments->is_object()) {
      call_problem(arguments_begin,
                   fmt::format("\"arguments\" must be an object, found {}.", arguments->type_name()));
    }
  } else {
    call_problem(arguments_begin,
                 fmt::format("The arguments are no valid JSON: {}.", arguments.failure().message));
  }
  if (parsed.call.name.empty()) call_problem(arguments_begin, "The call names no tool.");
  open_ = announced_ = false;
  deltas_.push_back({TurnDelta::Kind::kCallEnded, turn_.calls.size() - 1, ""});
}

std::vector<TurnDelta> TurnBuilder::take_deltas(bool ended) {
  if (held_) return {};
  std::vector<TurnDelta> deltas = std::exchange(deltas_, {});
  if (ended || deltas.empty() || deltas.back().kind == TurnDelta::Kind::kCallStarted) return deltas;
  TurnDelta& last = deltas.back();
  if (size_t cut = cut_character(last.text)) {
    deltas_.push_back({last.kind, last.call, last.text.substr(last.text.size() - cut)});
    last.text.resize(last.text.size() - cut);
    if (last.text.empty()) deltas.pop_back();
  }
  return deltas;
}

}  // namespace stoker
