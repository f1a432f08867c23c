#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_call_parser.h"

namespace stoker {

// A ParsedTurn that grows, and what of its growth has been announced. Readers add to it in the order of the
// text; whatever they add stays, except a call that was not announced, and, before it is known that there is
// no thinking, everything (see `everything_was_reasoning`).
class TurnBuilder {
 public:
  // Whether the growth is told at all: a text that is parsed whole has nobody to tell.
  enum class Deltas { kTold, kNone };

  explicit TurnBuilder(Deltas deltas = Deltas::kTold) : tells_(deltas == Deltas::kTold) {}

  // While held nothing is announced.
  void hold(bool held) { held_ = held; }

  void add_reasoning(std::string_view text);
  void add_content(std::string_view text);
  void add_problem(size_t position, std::string message) {
    turn_.problems.push_back({position, std::move(message)});
  }
  // The prompt had opened the thinking: drops all that was built and makes `text` the reasoning.
  void everything_was_reasoning(std::string_view text);

  // A call starts. It is announced once its name and the start of its arguments are known, or when it ends.
  void open_call();
  bool call_is_open() const { return open_; }
  bool call_is_announced() const { return announced_; }
  void drop_call();  // what was opened is no call; it must not be announced
  ParsedCall& call() { return turn_.calls.back(); }
  void announce_call();
  // Appends to the JSON text of the arguments.
  void add_arguments(std::string_view json);
  // The first problem of a call is the one that is told.
  void call_problem(size_t position, std::string message);
  // Ends the call: `raw` is its text, which stands at `position`; `arguments_begin` is the place of its
  // arguments.
  void close_call(size_t position, std::string_view raw, size_t arguments_begin);

  // What has become certain since the last time. A character that is cut in two by the end of the text fed so
  // far stays back unless the turn has ended.
  std::vector<TurnDelta> take_deltas(bool ended);

  ParsedTurn& turn() { return turn_; }

 private:
  void announce(TurnDelta::Kind kind, std::string_view text);
  void add_trimmed(std::string& to, std::string& blanks, std::string_view which, std::string_view text,
                   TurnDelta::Kind kind);

  ParsedTurn turn_;
  std::string reasoning_blanks_;  // read, and part of the turn only if more follows
  std::string content_blanks_;
  std::vector<TurnDelta> deltas_;
  bool tells_;
  bool held_ = false;
  bool open_ = false;
  bool announced_ = false;
};

}  // namespace stoker
