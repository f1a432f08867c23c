#include "text/template_traits.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/json_text.h"

namespace stoker {
namespace {

// Texts of the small conversations; no template contains them.
constexpr const char* kSystemText = "Copper lantern";
constexpr const char* kUserText = "Quiet river";
constexpr const char* kNextUserText = "Seventh meadow";
constexpr const char* kAssistantText = "Velvet harbor";
constexpr const char* kToolText = "Amber thicket";
constexpr const char* kNextToolText = "Hollow granite";
constexpr const char* kToolName = "probe_walnut";
constexpr const char* kThought = "Drifting ember";

Message system_message() { return {.role = Role::kSystem, .content = kSystemText}; }
Message user_message(const char* text = kUserText) { return {.role = Role::kUser, .content = text}; }
Message assistant_message(std::string text = kAssistantText) {
  return {.role = Role::kAssistant, .content = std::move(text)};
}
Message call_message(int calls = 1) {
  Message message{.role = Role::kAssistant};
  for (int i = 0; i < calls; ++i)
    message.tool_calls.push_back({fmt::format("call0000{}", i), kToolName, Json::object({{"x", i}}), ""});
  return message;
}
Message tool_message(const char* text = kToolText) {
  return {.role = Role::kTool, .content = text, .tool_call_id = "call00000", .name = kToolName};
}
ToolSchema probe_tool() {
  return {kToolName, "Walnut.", Json::object({{"type", "object"}, {"properties", Json::object()}})};
}

std::string without_trailing_blanks(std::string text) {
  size_t end = text.find_last_not_of(" \n\t");
  text.resize(end == std::string::npos ? 0 : end + 1);
  return text;
}

// Where the text of a message begins; 0 when it is not written by a loop over messages.
size_t begin_of(const jinja::Rendered& rendered, int message) {
  for (const jinja::Rendered::MessageSpan& span : rendered.messages) {
    if (span.message == message) return span.bytes.begin;
  }
  return 0;
}

// What a message's text begins with, up to its words.
std::string opening(const jinja::Rendered& rendered, int message, std::string_view words) {
  const std::string& text = rendered.text.bytes();
  size_t begin = begin_of(rendered, message);
  size_t end = text.find(words, begin);
  return end == std::string::npos ? "" : without_trailing_blanks(text.substr(begin, end - begin));
}

std::string call_text(const ToolCall& call) {
  std::string arguments =
      call.arguments.is_string() ? call.arguments.as_string() : python_json(call.arguments);
  return fmt::format("<tool_call>\n{{\"name\": {}, \"arguments\": {}}}\n</tool_call>",
                     python_json(Json(call.name)), arguments);
}

void join_content(std::string& content, const std::string& more, std::string_view separator) {
  if (!content.empty() && !more.empty()) content += separator;
  content += more;
}

}  // namespace

const char* to_string(HistoryTrait trait) {
  switch (trait) {
    case HistoryTrait::kAppends:
      return "appends";
    case HistoryTrait::kRewrites:
      return "rewrites";
    case HistoryTrait::kRefuses:
      return "refuses";
  }
  throw internal_error("A template has a trait that is no member of HistoryTrait.");
}

std::vector<Message> adapted(std::span<const Message> messages, const TemplateTraits& traits) {
  std::vector<Message> result;
  std::string system;
  for (const Message& message : messages) {
    Message now = message;
    if (now.role == Role::kSystem && !traits.takes_system) {
      join_content(system, now.content, "\n\n");
      continue;
    }
    if (now.role == Role::kTool && !traits.takes_tools) {
      now = {.role = Role::kUser, .content = message.content};
    }
    if (!now.tool_calls.empty() && !traits.writes_calls) {
      for (const ToolCall& call : now.tool_calls) join_content(now.content, call_text(call), "\n");
      now.tool_calls.clear();
    }
    if (now.role == Role::kUser && !system.empty()) {
      join_content(system, now.content, "\n\n");
      now.content = std::exchange(system, "");
    }
    bool joins = traits.alternates && !result.empty() && result.back().role == now.role &&
                 now.tool_calls.empty() && (now.role == Role::kUser || now.role == Role::kAssistant);
    if (joins) {
      join_content(result.back().content, now.content, "\n\n");
    } else {
      result.push_back(std::move(now));
    }
  }
  if (!system.empty()) result.push_back({.role = Role::kUser, .content = std::move(system)});
  return result;
}

Result<jinja::Rendered> TemplateProbe::render(std::span<const Message> messages,
                                              std::span<const ToolSchema> tools,
                                              bool add_generation_prompt) const {
  return template_.render({chat_messages(messages), chat_tools(tools), add_generation_prompt, variables_},
                          now_);
}

std::optional<std::string> TemplateProbe::text(std::vector<Message> messages,
                                               bool add_generation_prompt) const {
  Result<jinja::Rendered> rendered = render(messages, {}, add_generation_prompt);
  if (!rendered) return std::nullopt;
  return rendered->text.bytes();
}

// `said`: what the model says after the prompt of `history` without its last message; forms of which one must
// fit.
HistoryTrait TemplateProbe::grows(const std::vector<Message>& history, const std::vector<Message>& added,
                                  const std::vector<std::string>& said) const {
  std::optional<std::string> prompt = text({history.begin(), history.end() - 1}, true);
  std::vector<Message> all = history;
  all.insert(all.end(), added.begin(), added.end());
  std::optional<std::string> next = text(all, true);
  if (!prompt || !next) return HistoryTrait::kRefuses;
  bool fits = std::any_of(said.begin(), said.end(),
                          [&](const std::string& words) { return next->starts_with(*prompt + words); });
  return fits ? HistoryTrait::kAppends : HistoryTrait::kRewrites;
}

// The last message of `history` that thinks does so in its text or in a member of its own, as the template
// has it.
HistoryTrait TemplateProbe::grows_thinking(const std::vector<Message>& history,
                                           const std::vector<Message>& added) const {
  auto thinker = std::find_if(history.begin(), history.end(),
                              [](const Message& message) { return !message.reasoning.empty(); });
  size_t index = static_cast<size_t>(thinker - history.begin());
  std::string thought = fmt::format("{}\n</think>\n\n", kThought);
  HistoryTrait best = HistoryTrait::kRefuses;
  for (bool in_text : {false, true}) {
    std::vector<Message> form = history;
    if (in_text) {
      form[index].content = "<think>\n" + thought + form[index].content;
      form[index].reasoning.clear();
    }
    std::optional<std::string> prompt =
        text({form.begin(), form.begin() + static_cast<std::ptrdiff_t>(index)}, true);
    std::optional<std::string> last_prompt = text({form.begin(), form.end() - 1}, true);
    form.insert(form.end(), added.begin(), added.end());
    std::optional<std::string> next = text(form, true);
    if (!prompt || !last_prompt || !next) continue;
    std::string said = (prompt->ends_with("<think>\n") ? "" : "<think>\n") + thought + history[index].content;
    bool fits = next->starts_with(*prompt + said) && next->starts_with(*last_prompt);
    if (fits) return HistoryTrait::kAppends;
    best = HistoryTrait::kRewrites;
  }
  return best;
}

// Whether the blanks around an assistant's words are missing from the next prompt.
bool TemplateProbe::trims(const std::string& before, const std::string& after) const {
  std::string words = before + kAssistantText + after;
  return grows({user_message(), assistant_message(words)}, {user_message(kNextUserText)}, {words}) ==
         HistoryTrait::kRewrites;
}

void TemplateProbe::find_roles(TemplateTraits& traits) const {
  auto holds = [](const std::optional<std::string>& rendered, std::string_view words) {
    return rendered && rendered->find(words) != std::string::npos;
  };
  traits.takes_system = holds(text({system_message(), user_message()}, true), kSystemText);
  Message call = call_message();
  std::optional<std::string> with_tool = text({user_message(), call, tool_message()}, true);
  traits.takes_tools = holds(with_tool, kToolText);
  traits.writes_calls = holds(with_tool, kToolName);
  call.content = kAssistantText;
  std::optional<std::string> with_words = text({user_message(), call, tool_message()}, true);
  traits.drops_words = holds(with_words, kToolName) && !holds(with_words, kAssistantText);
  traits.alternates =
      !text({user_message(), user_message(kNextUserText)}, true) && text({user_message()}, true);
}

void TemplateProbe::find_history(TemplateTraits& traits) const {
  auto conversation = [&](std::vector<Message> messages) { return adapted(messages, traits); };
  Message user = user_message();
  Message next = user_message(kNextUserText);
  Message answer = assistant_message();
  Message call = call_message();
  Message tool = tool_message();
  Message thinking_answer = answer;
  Message thinking_call = call;
  thinking_answer.reasoning = thinking_call.reasoning = kThought;
  std::vector<Message> tool_added = conversation({tool});
  traits.plain_user = grows({user, answer}, {next}, {kAssistantText});
  if (traits.plain_user == HistoryTrait::kAppends)
    traits.plain_user = grows({user, answer, next, answer}, {user}, {kAssistantText});
  traits.tool_result = grows(conversation({user, call}), tool_added, {""});
  traits.several_results =
      grows(conversation({user, call_message(2)}), conversation({tool, tool_message(kNextToolText)}), {""});
  traits.after_tool_user = grows(conversation({user, call, tool, answer}), {next}, {kAssistantText});
  traits.after_tool_tool = grows(conversation({user, call, tool, call}), tool_added, {""});
  traits.thinking_user = grows_thinking({user, thinking_answer}, {next});
  traits.thinking_tool = grows_thinking(conversation({user, thinking_call}), tool_added);
  traits.earlier_thinking_user = grows_thinking(conversation({user, thinking_call, tool, answer}), {next});
  traits.earlier_thinking_tool = grows_thinking(conversation({user, thinking_call, tool, call}), tool_added);
  if (traits.plain_user != HistoryTrait::kAppends) return;
  traits.trims_leading_newlines = trims("\n", "");
  traits.trims_leading_spaces = trims(" ", "");
  traits.trims_trailing_newlines = trims("", "\n");
  traits.trims_trailing_spaces = trims("", " ");
}

void TemplateProbe::find_openings(TemplateTraits& traits) const {
  std::optional<std::string> prompt = text({user_message()}, true);
  std::optional<std::string> start = text({user_message()}, false);
  if (prompt && start && prompt->starts_with(*start))
    traits.generation_prompt = prompt->substr(start->size());
  std::vector<Message> chat = {user_message(), assistant_message(), user_message(kNextUserText)};
  if (Result<jinja::Rendered> rendered = render(chat, {}, false)) {
    traits.assistant_opening = opening(*rendered, 1, kAssistantText);
    // Some templates write thinking there that was none; a sampled turn need not have it.
    std::string prompted = without_trailing_blanks(traits.generation_prompt);
    if (!prompted.empty() && traits.assistant_opening.starts_with(prompted))
      traits.assistant_opening = prompted;
    traits.user_opening = opening(*rendered, 2, kNextUserText);
    traits.default_start = rendered->text.bytes().substr(0, begin_of(*rendered, 0));
  }
  if (Result<jinja::Rendered> rendered = render(std::vector{system_message(), user_message()}, {}, false);
      rendered && traits.takes_system) {
    const std::string& text = rendered->text.bytes();
    traits.system_opening = without_trailing_blanks(text.substr(0, text.find(kSystemText)));
  }
  if (Result<jinja::Rendered> rendered =
          render(std::vector{user_message()}, std::vector{probe_tool()}, false)) {
    const std::string& text = rendered->text.bytes();
    size_t tool = text.find("{\"type\"");
    if (tool != std::string::npos) traits.default_start_with_tools = text.substr(0, tool);
  }
  std::optional<std::string> called = text({user_message(), call_message()}, false);
  if (prompt && called && traits.writes_calls && called->starts_with(*prompt)) {
    size_t begin = std::min(called->find_first_not_of(" \n\t", prompt->size()), called->size());
    traits.call_opening = called->substr(begin, called->find_first_of(" \n\t\"", begin) - begin);
  }
  if (!traits.takes_tools) return;
  std::vector<Message> results = {user_message(), call_message(), tool_message(),
                                  tool_message(kNextToolText)};
  if (Result<jinja::Rendered> rendered = render(results, {}, false)) {
    traits.tool_opening = opening(*rendered, 2, kToolText);
    traits.next_tool_opening = opening(*rendered, 3, kNextToolText);
  }
}

TemplateTraits TemplateProbe::traits() const {
  TemplateTraits traits;
  find_roles(traits);
  find_history(traits);
  find_openings(traits);
  return traits;
}

}  // namespace stoker
