#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/message.h"

namespace stoker {

// What a template does with earlier text when a conversation grows.
enum class HistoryTrait : uint8_t {
  kAppends,   // the earlier text stays and the new follows
  kRewrites,  // the earlier text changes
  kRefuses,   // the template raises an error
};

// "appends", "rewrites", "refuses".
const char* to_string(HistoryTrait trait);

// How a chat template treats conversations, found by rendering small ones. "Appends" means: what was rendered
// as a prompt, followed by what the model says in the conversation, is the start of the next prompt.
struct TemplateTraits {
  bool takes_system = false;  // a system message is written
  bool takes_tools = false;   // a tool's message is written, as a role of its own
  bool writes_calls = false;  // an assistant's structured calls are written
  bool alternates = false;    // two user messages in a row are refused
  bool drops_words = false;   // what an assistant says before its calls is left out

  HistoryTrait plain_user{};             // user, assistant + user
  HistoryTrait tool_result{};            // user, call + tool
  HistoryTrait several_results{};        // user, two calls + tool, tool
  HistoryTrait after_tool_user{};        // user, call, tool, assistant + user
  HistoryTrait after_tool_tool{};        // user, call, tool, call + tool
  HistoryTrait thinking_user{};          // user, assistant that thought + user
  HistoryTrait thinking_tool{};          // user, call after a thought + tool
  HistoryTrait earlier_thinking_user{};  // user, call after a thought, tool, assistant + user
  HistoryTrait earlier_thinking_tool{};  // user, call after a thought, tool, call + tool

  // Blanks at the start and at the end of an assistant's turn that the next prompt leaves out.
  bool trims_leading_newlines = false;
  bool trims_leading_spaces = false;
  bool trims_trailing_newlines = false;
  bool trims_trailing_spaces = false;

  std::string generation_prompt;  // what add_generation_prompt adds
  // What stands before a message's own text, without blanks at its end; empty where there is none.
  std::string system_opening;
  std::string user_opening;
  std::string assistant_opening;
  std::string call_opening;  // of an assistant's call, up to its first blank or quote
  std::string tool_opening;
  std::string next_tool_opening;  // of a tool's message that follows another
  // What the template writes before the first message where there is no system message.
  std::string default_start;
  std::string default_start_with_tools;  // up to the first tool
};

// A conversation in the form that the template can express: where it does not take them, a system message
// goes before the first user message's text, a tool's message becomes a user's, calls become text in the form
// of Hermes; neighbours of one role are joined by an empty line where roles must alternate (shared case
// TPL-11).
std::vector<Message> adapted(std::span<const Message> messages, const TemplateTraits& traits);

// A template with all that its renders share.
class TemplateProbe {
 public:
  TemplateProbe(const ChatTemplate& chat_template, const jinja::Variables& variables,
                const jinja::CivilTime& now)
      : template_(chat_template), variables_(variables), now_(now) {}

  // Renders a few small conversations.
  TemplateTraits traits() const;

  Result<jinja::Rendered> render(std::span<const Message> messages, std::span<const ToolSchema> tools,
                                 bool add_generation_prompt) const;

 private:
  // Empty where the template refuses.
  std::optional<std::string> text(std::vector<Message> messages, bool add_generation_prompt) const;
  HistoryTrait grows(const std::vector<Message>& history, const std::vector<Message>& added,
                     const std::vector<std::string>& said) const;
  HistoryTrait grows_thinking(const std::vector<Message>& history, const std::vector<Message>& added) const;
  bool trims(const std::string& before, const std::string& after) const;
  void find_roles(TemplateTraits& traits) const;
  void find_history(TemplateTraits& traits) const;
  void find_openings(TemplateTraits& traits) const;

  const ChatTemplate& template_;
  const jinja::Variables& variables_;
  jinja::CivilTime now_;
};

}  // namespace stoker
