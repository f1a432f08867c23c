#pragma once

#include <memory>
#include <string>
#include <vector>

#include "async/task.h"
#include "environment/environment.h"
#include "text/message.h"

namespace stoker {

// What an agent made of one turn of the policy.
struct AgentTurn {
  Message message;                    // the assistant's message: content, calls
  std::vector<Message> tool_results;  // one for each call, in order; empty: the turn goes to the environment
  int32_t tool_calls = 0;
  int32_t tool_errors = 0;
};

// Interprets the policy's text and acts on it. Holds no state of an episode: what it knows derives from the
// trajectory.
class Agent {
 public:
  virtual ~Agent() = default;
  // `text`: the decoded turn without its end token. Runs tool calls side by side, each with its own deadline.
  // A Failure is of the infrastructure (a tool that hung or crashed).
  virtual Task<Result<AgentTurn>> interpret(const std::string& text, const std::vector<Tool*>& tools) = 0;
};

// The whole text is the answer to the environment; no calls are looked for.
std::unique_ptr<Agent> make_conversation_agent();

struct ToolAgentOptions {
  double tool_timeout_seconds = 30;
  int32_t max_parallel_calls = 8;
  int32_t max_result_bytes = 16384;  // longer results are cut at a character, with a note (ENV-09)
};
// Parses Hermes/Qwen tool calls, validates arguments, runs the tools. Whatever is wrong with a call is told
// to the model.
std::unique_ptr<Agent> make_tool_agent(const ToolAgentOptions& options);

}  // namespace stoker
