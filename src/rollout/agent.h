#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.h"
#include "environment/environment.h"
#include "text/message.h"

namespace stoker {

// The tools of one episode. Each pointer keeps alive what owns the tool, the environment: a call that hangs
// may outlive the episode.
using Tools = std::vector<std::shared_ptr<Tool>>;

// What an agent made of one turn of the policy.
struct AgentTurn {
  Message message;                    // the assistant's message: content, calls
  std::vector<Message> tool_results;  // one for each call, in order; empty: the turn goes to the environment
  int32_t tool_calls = 0;
  int32_t tool_errors = 0;  // calls whose result is an error that the model sees
};

// Interprets the policy's text and acts on it. Holds no state of an episode: what it knows derives from the
// trajectory. One agent serves all episodes of a loop; it must be destroyed on it, before the executor.
class Agent {
 public:
  virtual ~Agent() = default;
  // `text`: the decoded turn without its end token. Runs tool calls side by side, each with its own deadline.
  // A Failure is of the infrastructure: tool.timeout (it hung), tool.exception (it threw), or what the tool
  // gave.
  virtual Task<Result<AgentTurn>> interpret(const std::string& text, const Tools& tools) = 0;
};

// The whole text, without reasoning, is the answer to the environment; no calls are looked for.
std::unique_ptr<Agent> make_conversation_agent();

struct ToolAgentOptions {
  double tool_timeout_seconds = 30;    // may be infinite
  int32_t max_parallel_calls = 8;      // of one turn
  int32_t max_result_bytes = 16384;    // longer results are cut at a character, with a note
  bool keep_end_of_result = false;     // of a result that is cut; else its start is kept
  bool show_failures = false;          // a call that hung, threw or failed is a result that the model sees
  std::string call_format = "hermes";  // a name of tool_call_formats()
};
// Parses the tool calls of a turn, validates their arguments, runs the tools. Whatever is wrong with a call
// (broken JSON, an unknown tool, wrong arguments) is its result, which the model sees; the other calls of the
// turn still run. Options out of range throw Error(kInput).
std::unique_ptr<Agent> make_tool_agent(const ToolAgentOptions& options);

// `text` if it has at most `max_bytes`; else its start followed by "...(truncated)", or "(truncated)..."
// followed by its end, of at most `max_bytes` without the note. Never cuts a UTF-8 character.
std::string cut_tool_result(std::string_view text, size_t max_bytes, bool keep_end);

}  // namespace stoker
