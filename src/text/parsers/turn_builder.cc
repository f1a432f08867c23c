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

// Of a call: of the last one.
void TurnBuilder::announce(TurnDelta::Kind kind, std::string_view text) {
  if (!tells_) return;
  const bool of_turn = kind == TurnDelta::Kind::kReasoning || kind == TurnDelta::Kind::kContent;
  const size_t call = of_turn ? 0 : turn_.calls.size() - 1;
  const bool grows = kind != TurnDelta::Kind::kCallStarted && kind != TurnDelta::Kind::kCallEnded;
  if (grows && !deltas_.empty() && deltas_.back().kind == kind && deltas_.back().call == call) {
    deltas_.back().text += text;
  } else {
    deltas_.push_back({kind, call, std::string(text)});
  }
}

void TurnBuilder::add_trimmed(std::string& to, std::string& blanks, std::string_view which,
                              std::string_view text, TurnDelta::Kind kind) {
  if (text.empty()) return;
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
  const size_t before = to.size();
  to += blanks;
  to += text.substr(0, last + 1);
  blanks = text.substr(last + 1);
  announce(kind, std::string_view(to).substr(before));
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
  announce(TurnDelta::Kind::kCallStarted, call().call.name);
  if (!call().arguments_text.empty()) announce(TurnDelta::Kind::kArguments, call().arguments_text);
}

void TurnBuilder::add_arguments(std::string_view json) {
  if (json.empty()) return;
  call().arguments_text += json;
  if (announced_) announce(TurnDelta::Kind::kArguments, json);
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
    parsed.call.arguments = without_duplicates(*std::move(arguments));
    if (!parsed.call.arguments.is_object()) {
      call_problem(arguments_begin, fmt::format("\"arguments\" must be an object, found {}.",
                                                parsed.call.arguments.type_name()));
    }
  } else {
    call_problem(arguments_begin,
                 fmt::format("The arguments are no valid JSON: {}.", arguments.failure().message));
  }
  if (parsed.call.name.empty()) call_problem(arguments_begin, "The call names no tool.");
  open_ = announced_ = false;
  announce(TurnDelta::Kind::kCallEnded, "");
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
