#include "text/template_renderer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/jinja/json_values.h"

namespace stoker {
namespace {

// The words of the conversation that stands for the one before a bridge.
constexpr const char* kStandInQuestion = "Hello.";
constexpr const char* kStandInWords = "Velvet harbor";

using Ids = std::vector<int32_t>;

bool matches(std::span<const int32_t> tokens, size_t at, const Ids& part) {
  return !part.empty() && part.size() <= tokens.size() - at &&
         std::equal(part.begin(), part.end(), tokens.begin() + static_cast<std::ptrdiff_t>(at));
}

constexpr size_t kBlock = 64;

// Whether one of kBlock ids is `id`; no branch for each, so that a long conversation is searched quickly.
bool in_block(const int32_t* ids, int32_t id) {
  int32_t found = 0;
  for (size_t i = 0; i < kBlock; ++i) found |= ids[i] == id;
  return found != 0;
}

// The first place of `part`; the size when there is none.
size_t find_first(std::span<const int32_t> tokens, const Ids& part) {
  if (part.empty()) return tokens.size();
  for (size_t at = 0; at < tokens.size();) {
    if (at + kBlock <= tokens.size() && !in_block(&tokens[at], part[0])) {
      at += kBlock;
      continue;
    }
    size_t end = std::min(at + kBlock, tokens.size());
    for (; at < end; ++at) {
      if (matches(tokens, at, part)) return at;
    }
  }
  return tokens.size();
}

// The last place of `part` that does not begin one of `others`, looked for from the end; the size when there
// is none.
size_t find_last(std::span<const int32_t> tokens, const Ids& part,
                 std::initializer_list<const Ids*> others = {}) {
  if (part.empty()) return tokens.size();
  auto is_other = [&](size_t at) {
    return std::any_of(others.begin(), others.end(),
                       [&](const Ids* other) { return matches(tokens, at, *other); });
  };
  for (size_t end = tokens.size(); end > 0;) {
    if (end >= kBlock && !in_block(&tokens[end - kBlock], part[0])) {
      end -= kBlock;
      continue;
    }
    size_t begin = end - std::min(end, kBlock);
    for (; end > begin; --end) {
      if (matches(tokens, end - 1, part) && !is_other(end - 1)) return end - 1;
    }
  }
  return tokens.size();
}

bool contains_id(const Ids& ids, int32_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }

std::vector<Message> stand_in(bool calls, size_t results) {
  Message answer{.role = Role::kAssistant, .content = kStandInWords};
  if (calls) {
    answer.content.clear();
    for (size_t i = 0; i < results; ++i)
      answer.tool_calls.push_back(
          {fmt::format("call0000{}", i % 10), "look", Json::object({{"at", kStandInWords}}), ""});
  }
  return {{.role = Role::kUser, .content = kStandInQuestion}, std::move(answer)};
}

size_t leading_results(const std::vector<Message>& messages) {
  auto other = std::find_if(messages.begin(), messages.end(),
                            [](const Message& message) { return message.role != Role::kTool; });
  return static_cast<size_t>(other - messages.begin());
}

bool has_role(const std::vector<Message>& messages, Role role) {
  return std::any_of(messages.begin(), messages.end(),
                     [role](const Message& message) { return message.role == role; });
}

jinja::Variables variables_of(const Json& json) {
  jinja::Variables variables;
  if (json.is_null()) return variables;
  for (const auto& [name, value] : json.as_object())
    variables.emplace_back(name, jinja::from_json(value, {Author::kSystem, false}));
  return variables;
}

}  // namespace

RenderedTokens encode_marked(const Tokenizer& tokenizer, const jinja::MarkedText& marked, size_t begin,
                             size_t end) {
  const std::string_view text = marked.bytes();
  std::vector<TextPiece> pieces;
  size_t at = begin;
  for (const jinja::MarkedText::Range& range : marked.ranges()) {
    if (range.end <= at) continue;
    if (at >= end) break;
    size_t stop = std::min(range.end, end);
    AddedTokens added = range.source.trusted ? AddedTokens::kAll : AddedTokens::kPlain;
    if (!pieces.empty() && pieces.back().added_tokens == added) {
      pieces.back().text = {pieces.back().text.data(), pieces.back().text.size() + (stop - at)};
    } else {
      pieces.push_back({text.substr(at, stop - at), added});
    }
    at = stop;
  }
  RenderedTokens out;
  for (const EncodedToken& token : tokenizer.encode_pieces(pieces)) {
    out.ids.push_back(token.id);
    out.authors.push_back(marked.source_at(begin + token.begin).author);
  }
  return out;
}

TemplateRenderer::TemplateRenderer(TokenizerPtr tokenizer, ChatTemplate chat_template,
                                   TemplateRendererOptions options)
    : tokenizer_(std::move(tokenizer)),
      template_(std::move(chat_template)),
      options_(std::move(options)),
      variables_(variables_of(options_.variables)),
      traits_(TemplateProbe(template_, variables_, options_.now).traits()) {
  find_stops();
  find_openings();
}

void TemplateRenderer::find_stops() {
  TemplateProbe probe(template_, variables_, options_.now);
  Result<jinja::Rendered> chat = probe.render(stand_in(false, 0), {}, false);
  if (!chat)
    throw input_error(
        fmt::format("The chat template cannot write a question and its answer: {}.", chat.failure().message));
  const std::string& text = chat->text.bytes();
  size_t words = text.rfind(kStandInWords);
  if (words == std::string::npos)
    throw input_error(
        "The chat template leaves out what the assistant says; no conversation can be rendered.");
  Ids tail = tokenizer_->encode_with_special(text.substr(words + std::string_view(kStandInWords).size()));
  auto stop = std::find_if(tail.begin(), tail.end(), [&](int32_t id) { return tokenizer_->is_special(id); });
  if (stop == tail.end())
    throw input_error(
        "The chat template ends the assistant's turn with no special token of the tokenizer; a model "
        "could not end its turn. Choose another template (model.chat_template, --chat-template).");
  turn_ends_.push_back(*stop);
  after_turn_.assign(stop + 1, tail.end());
  std::vector<std::string> names = {"<|eom_id|>", "<|endoftext|>", "<|end_of_text|>"};
  for (const auto& [name, token] : template_.special_tokens()) {
    if (name == "eos_token") names.insert(names.begin(), token);
  }
  Ids others;
  for (const std::string& name : names) {
    std::optional<int32_t> id = tokenizer_->token_to_id(name);
    if (id && tokenizer_->is_special(*id) && !contains_id(others, *id) && *id != turn_ends_[0])
      others.push_back(*id);
  }
  // A turn that calls tools may end otherwise.
  std::vector<Message> calls = adapted(stand_in(true, 1), traits_);
  if (Result<jinja::Rendered> rendered = probe.render(calls, {}, false)) {
    const std::string& called = rendered->text.bytes();
    size_t at = called.rfind(kStandInWords);
    Ids rest = tokenizer_->encode_with_special(at == std::string::npos ? "" : called.substr(at));
    auto end = std::find_if(rest.begin(), rest.end(),
                            [&](int32_t id) { return id == turn_ends_[0] || contains_id(others, id); });
    if (end != rest.end() && *end != turn_ends_[0]) turn_ends_.push_back(*end);
  }
  stop_tokens_ = turn_ends_;
  for (int32_t id : others) {
    if (!contains_id(stop_tokens_, id)) stop_tokens_.push_back(id);
  }
}

void TemplateRenderer::find_openings() {
  auto ids = [&](const std::string& text) { return tokenizer_->encode_with_special(text); };
  openings_ = {.system = ids(traits_.system_opening),
               .user = ids(traits_.user_opening),
               .assistant = ids(traits_.assistant_opening),
               .tool = ids(traits_.tool_opening),
               .next_tool = ids(traits_.next_tool_opening),
               .default_start = ids(traits_.default_start),
               .default_start_with_tools = ids(traits_.default_start_with_tools),
               .generation_prompt = ids(traits_.generation_prompt),
               .thought_end = ids("</think>")};
}

bool TemplateRenderer::ends_turn(int32_t id) const { return contains_id(turn_ends_, id); }

std::vector<Message> TemplateRenderer::with_default_system(std::span<const Message> messages) const {
  std::vector<Message> all;
  bool has_system = !messages.empty() && messages[0].role == Role::kSystem;
  if (!has_system && !options_.default_system_prompt.empty())
    all.push_back({.role = Role::kSystem, .content = options_.default_system_prompt});
  all.insert(all.end(), messages.begin(), messages.end());
  return all;
}

RenderedTokens TemplateRenderer::to_tokens(const jinja::Rendered& rendered,
                                           const std::vector<bool>& is_assistant) const {
  const std::string_view text = rendered.text.bytes();
  std::vector<jinja::Rendered::Span> turns;
  if (!rendered.generation.empty()) {
    turns = rendered.generation;
  } else {
    for (const auto& [bytes, message] : rendered.messages) {
      if (static_cast<size_t>(message) >= is_assistant.size() || !is_assistant[static_cast<size_t>(message)])
        continue;
      size_t begin = bytes.begin;
      std::string_view turn = text.substr(begin, bytes.end - begin);
      if (!traits_.generation_prompt.empty() && turn.starts_with(traits_.generation_prompt)) {
        begin += traits_.generation_prompt.size();
      } else if (turn.starts_with(traits_.assistant_opening)) {
        begin += traits_.assistant_opening.size();
        while (begin < bytes.end && (text[begin] == '\n' || text[begin] == ' ') &&
               rendered.text.source_at(begin).trusted)
          ++begin;
      }
      turns.push_back({begin, bytes.end});
    }
  }
  // Cut at the turns, so that each token lies in one of the stretches; control tokens stand at the cuts.
  RenderedTokens tokens;
  auto append = [&](size_t begin, size_t end) {
    RenderedTokens part = encode_marked(*tokenizer_, rendered.text, begin, end);
    tokens.ids.insert(tokens.ids.end(), part.ids.begin(), part.ids.end());
    tokens.authors.insert(tokens.authors.end(), part.authors.begin(), part.authors.end());
  };
  size_t done = 0;
  for (const auto& [begin, end] : turns) {
    append(done, begin);
    size_t first = tokens.ids.size();
    append(begin, end);
    size_t last = tokens.ids.size();
    while (last > first && !contains_id(stop_tokens_, tokens.ids[last - 1])) --last;
    if (last == first) last = tokens.ids.size();
    std::fill(tokens.authors.begin() + static_cast<std::ptrdiff_t>(first),
              tokens.authors.begin() + static_cast<std::ptrdiff_t>(last), Author::kAssistant);
    done = end;
  }
  append(done, text.size());
  return tokens;
}

Result<RenderedTokens> TemplateRenderer::render(std::span<const Message> messages,
                                                std::span<const ToolSchema> tools,
                                                bool add_generation_prompt) const {
  std::vector<Message> all = adapted(with_default_system(messages), traits_);
  if (!options_.list_tools) tools = {};
  ChatInput input{chat_messages(all), chat_tools(tools), add_generation_prompt, variables_};
  Result<jinja::Rendered> rendered = template_.render(input, options_.now);
  if (!rendered) return rendered.failure();
  std::vector<bool> is_assistant;
  for (const Message& message : all) is_assistant.push_back(message.role == Role::kAssistant);
  return to_tokens(*rendered, is_assistant);
}

Result<jinja::Rendered> TemplateRenderer::render_after_stand_in(const std::vector<Message>& added,
                                                                size_t& begin) const {
  size_t results = leading_results(added);
  Result<jinja::Rendered> rendered = Failure{};
  // Some templates take one call a turn only, others as many results as calls.
  for (size_t calls : {size_t{1}, results}) {
    std::vector<Message> all = adapted(stand_in(results > 0, calls), traits_);
    all.insert(all.end(), added.begin(), added.end());
    rendered = template_.render({chat_messages(all), {}, true, variables_}, options_.now);
    if (rendered) break;
  }
  if (!rendered) return rendered;
  const std::string& text = rendered->text.bytes();
  size_t words = text.find(kStandInWords);
  begin = std::string::npos;
  for (int32_t stop : turn_ends_) {
    std::string_view bytes = tokenizer_->token_bytes(stop);
    size_t end = words == std::string::npos ? words : text.find(bytes, words);
    if (end != std::string::npos) begin = std::min(begin, end + bytes.size());
  }
  if (begin == std::string::npos)
    return Failure{FailureClass::kEnvironment, "template",
                   "the chat template does not write an assistant's turn before these messages"};
  return rendered;
}

size_t TemplateRenderer::last_user(std::span<const int32_t> tokens) const {
  // Some templates write a tool's result as a user's message.
  size_t found = find_last(tokens, openings_.user, {&openings_.tool, &openings_.next_tool});
  return found == tokens.size() ? 0 : found;
}

size_t TemplateRenderer::messages_before(std::span<const int32_t> tokens, size_t position) const {
  size_t at = 0;
  // A system turn that the template brings itself is no message.
  if (matches(tokens, 0, openings_.default_start)) {
    at = openings_.default_start.size();
  } else if (matches(tokens, 0, openings_.default_start_with_tools)) {
    at = openings_.default_start_with_tools.size();
  }
  const std::array<const Ids*, 5> all = {&openings_.system, &openings_.user, &openings_.assistant,
                                         &openings_.tool, &openings_.next_tool};
  size_t count = 0;
  while (at < position) {
    size_t longest = 0;
    for (const Ids* opening : all) {
      if (matches(tokens, at, *opening)) longest = std::max(longest, opening->size());
    }
    count += longest > 0;
    at += std::max<size_t>(longest, 1);
  }
  return count;
}

std::pair<size_t, size_t> TemplateRenderer::last_turn(std::span<const int32_t> tokens) const {
  size_t prompt = find_last(tokens, openings_.generation_prompt);
  if (prompt == tokens.size()) return {prompt, prompt};
  size_t begin = prompt + openings_.generation_prompt.size();
  size_t end = tokens.size();
  if (!after_turn_.empty() && end > begin + after_turn_.size() &&
      matches(tokens, end - after_turn_.size(), after_turn_) &&
      ends_turn(tokens[end - after_turn_.size() - 1]))
    end -= after_turn_.size();
  if (end > begin && contains_id(stop_tokens_, tokens[end - 1])) --end;
  return {begin, end};
}

std::optional<HistoryRewritten> TemplateRenderer::trimming(std::span<const int32_t> tokens) const {
  if (options_.keeps_blanks) return std::nullopt;
  auto [begin, end] = last_turn(tokens);
  if (begin >= end) return std::nullopt;
  std::string_view first = tokenizer_->token_bytes(tokens[begin]);
  std::string_view last = tokenizer_->token_bytes(tokens[end - 1]);
  bool leading = (traits_.trims_leading_newlines && first.starts_with('\n')) ||
                 (traits_.trims_leading_spaces && first.starts_with(' '));
  bool trailing = (traits_.trims_trailing_newlines && last.ends_with('\n')) ||
                  (traits_.trims_trailing_spaces && last.ends_with(' '));
  if (!leading && !trailing) return std::nullopt;
  size_t before = messages_before(tokens, begin);
  return HistoryRewritten{before == 0 ? 0 : before - 1,
                          fmt::format("the template trims the blanks at the {} of an assistant's turn",
                                      leading ? "start" : "end")};
}

// Whether the last turn, which called tools, says something before its call that the template leaves out.
std::optional<HistoryRewritten> TemplateRenderer::dropped_words(std::span<const int32_t> tokens) const {
  if (!traits_.drops_words || traits_.call_opening.empty()) return std::nullopt;
  auto [begin, end] = last_turn(tokens);
  std::string start;
  for (size_t at = begin; at < end && start.size() < traits_.call_opening.size(); ++at) {
    if (start.empty() && tokenizer_->is_special(tokens[at])) return std::nullopt;  // a tag that opens a call
    start += tokenizer_->token_bytes(tokens[at]);
    start.erase(0, start.find_first_not_of(" \n\t"));
  }
  if (start.empty() || start.starts_with(traits_.call_opening)) return std::nullopt;
  size_t before = messages_before(tokens, begin);
  return HistoryRewritten{before == 0 ? 0 : before - 1, "the template drops the words before a call"};
}

// Whether the template leaves out thinking that stands in the tokens: where a user speaks, anywhere; where a
// tool answers, in the turn that called it, or in those since the user spoke.
std::optional<HistoryRewritten> TemplateRenderer::dropped_thought(std::span<const int32_t> tokens,
                                                                  bool by_user) const {
  bool latest = (by_user ? traits_.thinking_user : traits_.thinking_tool) == HistoryTrait::kRewrites;
  bool earlier =
      (by_user ? traits_.earlier_thinking_user : traits_.earlier_thinking_tool) == HistoryTrait::kRewrites;
  if (!latest && !earlier) return std::nullopt;
  size_t turn = find_last(tokens, openings_.assistant);
  size_t begin = by_user ? 0 : !latest ? last_user(tokens) : turn == tokens.size() ? 0 : turn;
  size_t end = latest ? tokens.size() : std::max(turn, begin);
  size_t found = begin + find_first(tokens.subspan(begin, end - begin), openings_.thought_end);
  if (found == end) return std::nullopt;
  size_t before = messages_before(tokens, found);
  return HistoryRewritten{before == 0 ? 0 : before - 1,
                          by_user ? "the template drops the thinking of earlier turns once a user speaks"
                                  : "the template drops the thinking of earlier turns once a tool answers"};
}

std::optional<HistoryRewritten> TemplateRenderer::rewriting(std::span<const int32_t> tokens,
                                                            const std::vector<Message>& added) const {
  bool by_tool = has_role(added, Role::kTool);
  bool by_user = has_role(added, Role::kUser) || !by_tool;
  auto rewrites = [](HistoryTrait trait) { return trait == HistoryTrait::kRewrites; };
  bool always = (by_user && rewrites(traits_.plain_user)) || (by_tool && rewrites(traits_.tool_result)) ||
                (leading_results(added) > 1 && rewrites(traits_.several_results));
  if (always) {
    size_t count = messages_before(tokens, tokens.size());
    return HistoryRewritten{count == 0 ? 0 : count - 1,
                            "the template writes an answered turn in another form than it prompts for"};
  }
  if ((by_user && rewrites(traits_.after_tool_user)) || (by_tool && rewrites(traits_.after_tool_tool))) {
    size_t found = find_first(tokens, openings_.tool);
    if (found != tokens.size())
      return HistoryRewritten{messages_before(tokens, found),
                              "the template writes a tool's result in another form once messages follow it"};
  }
  if (by_user) {
    if (std::optional<HistoryRewritten> dropped = dropped_thought(tokens, true)) return dropped;
  }
  if (by_tool) {
    if (std::optional<HistoryRewritten> dropped = dropped_thought(tokens, false)) return dropped;
    if (std::optional<HistoryRewritten> dropped = dropped_words(tokens)) return dropped;
  }
  return trimming(tokens);
}

Result<Bridge> TemplateRenderer::bridge(std::span<const int32_t> tokens,
                                        std::span<const Message> messages) const {
  if (tokens.empty())
    throw internal_error("A bridge was asked for without tokens; render the conversation instead.");
  std::vector<Message> added = adapted(messages, traits_);
  if (std::optional<HistoryRewritten> rewritten = rewriting(tokens, added))
    return Bridge(std::move(*rewritten));
  size_t begin = 0;
  Result<jinja::Rendered> rendered = render_after_stand_in(added, begin);
  if (!rendered) return rendered.failure();
  RenderedTokens glue = encode_marked(*tokenizer_, rendered->text, begin, rendered->text.size());
  RenderedTokens suffix;
  bool glued = !after_turn_.empty() && tokens.size() > after_turn_.size() &&
               matches(tokens, tokens.size() - after_turn_.size(), after_turn_) &&
               ends_turn(tokens[tokens.size() - after_turn_.size() - 1]);
  size_t skipped = glued && matches(glue.ids, 0, after_turn_) ? after_turn_.size() : 0;
  if (!glued && !ends_turn(tokens.back())) {
    suffix.ids.push_back(turn_ends_[0]);
    suffix.authors.push_back(Author::kTemplate);
  }
  suffix.ids.insert(suffix.ids.end(), glue.ids.begin() + static_cast<std::ptrdiff_t>(skipped),
                    glue.ids.end());
  suffix.authors.insert(suffix.authors.end(), glue.authors.begin() + static_cast<std::ptrdiff_t>(skipped),
                        glue.authors.end());
  return Bridge(std::move(suffix));
}

}  // namespace stoker
