#include "rollout/episode_play.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include "rollout/deadline.h"

namespace stoker {
namespace {

// Rendering takes about 20 ns a byte: more than this is done beside the loop thread.
constexpr size_t kLoopThreadBytes = 64 << 10;

size_t content_bytes(std::span<const Message> messages) {
  size_t bytes = 0;
  for (const Message& message : messages) bytes += message.content.size() + message.reasoning.size();
  return bytes;
}

Failure limit_failure(const char* reason, std::string sentence) {
  return {FailureClass::kLimit, reason, std::move(sentence)};
}

Failure context_failure() {
  return limit_failure("context", "The context is full: the next turn would not fit.");
}

// Adds the engine's tokens to the trajectory as they come; an unfinished span is closed as aborted on every
// way out, and keeps what was sampled.
class SampledSpan final : public TokenSink {
 public:
  SampledSpan(Trajectory& trajectory, int32_t turn, Executor& executor, EpisodeActivity& activity)
      : trajectory_(trajectory), turn_(turn), executor_(executor), activity_(activity) {
    const int64_t time = now();
    trajectory_.begin_sampled(turn, time);
    activity_.enter(TraceSpan::kQueue, turn, time);
  }
  ~SampledSpan() {
    if (open_) trajectory_.close_sampled(StopReason::kAborted, now());
  }
  void started() override { activity_.enter(TraceSpan::kPrefill, turn_, now()); }
  void accept(const SampledToken& token) override {
    if (std::exchange(decoding_, true)) {
      activity_.progress();
    } else {
      activity_.enter(TraceSpan::kDecode, turn_, now());
    }
    trajectory_.append_sampled(token.id, token.log_probability, token.version, token.mixed);
  }
  void close(StopReason reason) {
    const int64_t time = now();
    trajectory_.close_sampled(reason, time);
    activity_.leave(time);
    open_ = false;
  }

 private:
  int64_t now() const { return executor_.now().time_since_epoch().count(); }

  Trajectory& trajectory_;
  int32_t turn_;
  Executor& executor_;
  EpisodeActivity& activity_;
  bool open_ = true;
  bool decoding_ = false;
};

std::vector<ToolSchema> schemas_of(const Tools& tools) {
  std::vector<ToolSchema> schemas;
  schemas.reserve(tools.size());
  for (const std::shared_ptr<Tool>& tool : tools) schemas.push_back(tool->schema());
  return schemas;
}

}  // namespace

EpisodePlay::EpisodePlay(const EpisodeParts& parts, EpisodeWorld& world, std::shared_ptr<EpisodeData> data,
                         std::shared_ptr<const Trajectory> recorded, Executor& executor)
    : parts_(parts),
      limits_(parts.settings.limits),
      world_(world),
      data_(std::move(data)),
      trajectory_(data_->record.trajectory),
      recorded_(std::move(recorded)),
      executor_(executor) {
  if (!recorded_) return;
  for (const Span& span : recorded_->spans()) {
    if (span.kind != SpanKind::kSampled) continue;
    if (span.stop_reason == StopReason::kAborted) break;
    recorded_turns_.push_back(span);
  }
}

Task<std::optional<Failure>> EpisodePlay::run() {
  // The samples of a group, and its retries, see the same world.
  RandomStream seeds({.run_seed = parts_.settings.run_seed,
                      .purpose = RandomPurpose::kEnvironment,
                      .task_ordinal = data_->record.id.task_ordinal});
  Result<Observation> observation = co_await world_.reset(seeds.bits());
  if (!observation) co_return observation.failure();
  data_->messages = std::move(observation->messages);
  data_->prompt_messages = data_->messages.size();
  if (observation->done) co_return std::nullopt;
  if (std::optional<Failure> failure = co_await open()) co_return failure;
  for (int32_t turn = 0;; ++turn) {
    if (std::optional<Failure> failure = co_await sample_turn(turn)) co_return failure;
    const Result<Reaction> reaction = co_await react(turn);
    if (!reaction) co_return reaction.failure();
    if (reaction->done) co_return is_recorded(turn + 1) ? check_recorded({}) : std::nullopt;
    if (turn + 1 >= limits_.max_turns) {
      co_return limit_failure("turns",
                              fmt::format("The episode was not done after {} turns.", limits_.max_turns));
    }
    if (std::optional<Failure> failure = co_await extend(turn, reaction->messages)) co_return failure;
  }
}

// The first prompt.
Task<std::optional<Failure>> EpisodePlay::open() {
  const std::vector<Message>& messages = data_->messages;
  if (messages.empty()) {
    co_return Failure{FailureClass::kEnvironment, "empty_observation",
                      "The environment's reset gave no message."};
  }
  const std::vector<ToolSchema> schemas = schemas_of(world_.tools());
  const int64_t start = now();
  std::optional<Result<RenderedTokens>> prompt;
  if (content_bytes(messages) <= kLoopThreadBytes) {
    prompt = parts_.renderer.render(messages, schemas, true);
  } else {
    prompt = co_await parts_.text_pool.run([&renderer = parts_.renderer, &messages, &schemas] {
      return renderer.render(messages, schemas, true);
    });
  }
  if (!*prompt) co_return prompt->failure();
  if (std::optional<Failure> failure = check_recorded((*prompt)->ids)) co_return failure;
  trajectory_.append(SpanKind::kPrompt, 0, (*prompt)->ids, start, now());
  co_return std::nullopt;
}

EpisodePlay::TurnBudget EpisodePlay::turn_budget() const {
  TurnBudget budget{.tokens = limits_.max_turn_tokens};
  const int32_t sampled_left = limits_.max_sampled_tokens - trajectory_.sampled_count();
  if (sampled_left < budget.tokens) {
    budget.tokens = sampled_left;
    budget.exhausted = limit_failure(
        "sampled_tokens", fmt::format("The episode sampled its {} tokens.", limits_.max_sampled_tokens));
  }
  if (limits_.max_context_tokens > 0 && limits_.max_context_tokens - trajectory_.size() < budget.tokens) {
    budget.tokens = limits_.max_context_tokens - trajectory_.size();
    budget.exhausted = context_failure();
  }
  return budget;
}

Task<std::optional<Failure>> EpisodePlay::sample_turn(int32_t turn) {
  TurnBudget budget = turn_budget();
  if (budget.tokens <= 0) co_return budget.exhausted;
  if (is_recorded(turn)) {
    copy_recorded(recorded_turns_[static_cast<size_t>(turn)]);
  } else if (std::optional<Failure> failure = co_await generate(turn, budget.tokens)) {
    co_return failure;
  }
  if (budget.exhausted && trajectory_.spans().back().stop_reason == StopReason::kLength) {
    Message& message = data_->messages.emplace_back();
    message.role = Role::kAssistant;
    message.content = turn_text();
    co_return std::move(budget.exhausted);
  }
  co_return std::nullopt;
}

GenerateRequest EpisodePlay::request(int32_t turn, int32_t max_tokens) const {
  const EpisodeId& id = data_->record.id;
  const std::span<const int32_t> stop_tokens = parts_.renderer.stop_tokens();
  const std::span<const int32_t> context = trajectory_.tokens();
  return {.tokens = {context.begin(), context.end()},
          .sampling = parts_.settings.sampling,
          .stop = {.max_tokens = max_tokens, .tokens = {stop_tokens.begin(), stop_tokens.end()}},
          .stream = {.run_seed = parts_.settings.run_seed,
                     .purpose = parts_.settings.purpose,
                     .task_ordinal = id.task_ordinal,
                     .sample = id.sample,
                     .attempt = id.attempt,
                     .turn = static_cast<uint32_t>(turn)}};
}

Task<std::optional<Failure>> EpisodePlay::generate(int32_t turn, int32_t max_tokens) {
  SampledSpan span(trajectory_, turn, executor_, *data_->activity);
  // By itself, so that no copy of the request stays while it is served.
  Task<Result<Completion>> serving = parts_.engine.generate(request(turn, max_tokens), span);
  const std::optional<Result<Completion>> completion =
      co_await with_timeout(limit_from_seconds(limits_.generate_timeout_seconds), std::move(serving));
  if (!completion) {
    co_return Failure{
        FailureClass::kInfrastructure, "timeout",
        fmt::format("The engine did not end turn {} within {} s.", turn, limits_.generate_timeout_seconds)};
  }
  if (!*completion) {
    const Failure& failure = completion->failure();
    if (failure.failure_class != FailureClass::kLimit || failure.reason != "context_length")
      co_return failure;
    co_return limit_failure("context", failure.message);
  }
  span.close((*completion)->stop_reason);
  co_return std::nullopt;
}

void EpisodePlay::copy_recorded(const Span& span) {
  trajectory_.begin_sampled(span.turn, span.start_time);
  for (int32_t i = span.begin; i < span.end; ++i) {
    trajectory_.append_sampled(recorded_->tokens()[static_cast<size_t>(i)], recorded_->log_probability(i),
                               recorded_->version(i), recorded_->mixed(i));
  }
  trajectory_.close_sampled(span.stop_reason, span.end_time);
}

// The last turn, without the token that ended it.
std::string EpisodePlay::turn_text() const {
  const Span& span = trajectory_.spans().back();
  const int32_t end = span.stop_reason == StopReason::kStopToken ? span.end - 1 : span.end;
  return parts_.tokenizer.decode(
      trajectory_.tokens().subspan(static_cast<size_t>(span.begin), static_cast<size_t>(end - span.begin)));
}

// Gives the last turn to the agent, and to the environment when no tool was called.
Task<Result<EpisodePlay::Reaction>> EpisodePlay::react(int32_t turn) {
  std::string text = turn_text();
  EpisodeActivity& activity = *data_->activity;
  const int64_t begin = now();
  activity.expect(TraceSpan::kTool, turn, begin);
  Result<AgentTurn> interpreted = co_await parts_.agent.interpret(text, world_.tools());
  if (!interpreted) co_return interpreted.failure();
  data_->record.tool_calls += interpreted->tool_calls;
  data_->record.tool_errors += interpreted->tool_errors;
  std::vector<Message>& messages = data_->messages;
  messages.push_back(std::move(interpreted->message));
  std::vector<Message>& results = interpreted->tool_results;
  if (!results.empty()) {
    activity.enter(TraceSpan::kTool, turn, begin);
    std::move(results.begin(), results.end(), std::back_inserter(messages));
    co_return Reaction{.messages = results.size()};
  }
  activity.enter(TraceSpan::kStep, turn, begin);
  Action action{.turn = turn, .text = std::move(text), .content = messages.back().content};
  Result<Observation> next = co_await world_.step(std::move(action));
  if (!next) co_return next.failure();
  if (!next->done && next->messages.empty()) {
    co_return Failure{FailureClass::kEnvironment, "empty_observation",
                      "The environment's step gave no message and is not done."};
  }
  std::move(next->messages.begin(), next->messages.end(), std::back_inserter(messages));
  co_return Reaction{.done = next->done, .messages = next->messages.size()};
}

// Renders what the world said behind the last turn: the last `count` messages.
Task<std::optional<Failure>> EpisodePlay::extend(int32_t turn, size_t count) {
  const std::span<const Message> messages = std::span(data_->messages).last(count);
  std::optional<Result<Bridge>> bridge;
  if (content_bytes(messages) <= kLoopThreadBytes) {
    bridge = parts_.renderer.bridge(trajectory_.tokens(), messages);
  } else {
    bridge =
        co_await parts_.text_pool.run([&renderer = parts_.renderer, &trajectory = trajectory_, messages] {
          return renderer.bridge(trajectory.tokens(), messages);
        });
  }
  if (!*bridge) co_return bridge->failure();
  if (const auto* rewritten = std::get_if<HistoryRewritten>(&**bridge)) {
    co_return Failure{FailureClass::kInfrastructure, "history_rewritten",
                      fmt::format("The template rewrites the conversation from message {} on: {}",
                                  rewritten->message, rewritten->reason)};
  }
  co_return append_suffix(turn, std::get<RenderedTokens>(**bridge));
}

std::optional<Failure> EpisodePlay::append_suffix(int32_t turn, const RenderedTokens& suffix) {
  const auto observed =
      static_cast<int32_t>(std::count_if(suffix.authors.begin(), suffix.authors.end(),
                                         [](Author author) { return author != Author::kTemplate; }));
  const auto size = static_cast<int32_t>(suffix.ids.size());
  if (observed > limits_.max_observation_tokens - observation_tokens_) {
    return limit_failure("observation_tokens", fmt::format("Tools and environment said more than {} tokens.",
                                                           limits_.max_observation_tokens));
  }
  if (limits_.max_context_tokens > 0 && size >= limits_.max_context_tokens - trajectory_.size()) {
    return context_failure();
  }
  if (std::optional<Failure> failure = check_recorded(suffix.ids)) return failure;
  observation_tokens_ += observed;
  const int64_t time = now();
  for (size_t begin = 0; begin < suffix.ids.size();) {
    const bool glue = suffix.authors[begin] == Author::kTemplate;
    size_t end = begin + 1;
    while (end < suffix.ids.size() && (suffix.authors[end] == Author::kTemplate) == glue) ++end;
    trajectory_.append(glue ? SpanKind::kInjected : SpanKind::kObservation, turn,
                       std::span(suffix.ids).subspan(begin, end - begin), time, time);
    begin = end;
  }
  return std::nullopt;
}

// What is appended next must be what was recorded at this place, if anything was.
std::optional<Failure> EpisodePlay::check_recorded(std::span<const int32_t> tokens) const {
  if (!recorded_ || trajectory_.size() >= recorded_->size()) return std::nullopt;
  int32_t end = recorded_->size();
  for (const Span& span : recorded_->spans()) {
    if (span.kind != SpanKind::kSampled || span.begin < trajectory_.size()) continue;
    end = span.begin;
    break;
  }
  const std::span<const int32_t> expected = recorded_->tokens().subspan(
      static_cast<size_t>(trajectory_.size()), static_cast<size_t>(end - trajectory_.size()));
  if (std::equal(tokens.begin(), tokens.end(), expected.begin(), expected.end())) return std::nullopt;
  return Failure{FailureClass::kEnvironment, "replay_mismatch",
                 fmt::format("Played again, the world did not say what was recorded behind token {}.",
                             trajectory_.size())};
}

int64_t EpisodePlay::now() const { return executor_.now().time_since_epoch().count(); }

}  // namespace stoker
