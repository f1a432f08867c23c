#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <span>
#include <string>

#include "async/compute_pool.h"
#include "async/pool.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/generate_batch.h"
#include "cli/model_path.h"
#include "cli/model_renderer.h"
#include "cli/session.h"
#include "engine/native_engine.h"
#include "engine/request_check.h"
#include "model/gguf_tokenizer.h"
#include "text/detokenizer.h"
#include "text/tool_call_parser.h"

namespace stoker {
namespace {

// Prints tokens as they come and keeps them.
class PrintingSink final : public TokenSink {
 public:
  explicit PrintingSink(const TokenizerPtr& tokenizer, const Renderer& renderer)
      : detokenizer_(tokenizer, true, TextPosition::kContinues), renderer_(renderer) {}

  void accept(const SampledToken& token) override {
    ids_.push_back(token.id);
    for (int32_t stop : renderer_.stop_tokens()) {
      if (token.id == stop) return;
    }
    print(detokenizer_.push(token.id));
  }
  void finish() { print(detokenizer_.finish() + "\n"); }
  const std::vector<int32_t>& ids() const { return ids_; }

 private:
  static void print(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  Detokenizer detokenizer_;
  const Renderer& renderer_;
  std::vector<int32_t> ids_;
};

class Chat {
 public:
  Chat(const GenerateArguments& arguments, RealExecutor& executor)
      : arguments_(arguments),
        compute_(compute_threads(arguments.threads)),
        tokenizer_(load_tokenizer(arguments.model)),
        renderer_(make_model_renderer(
            arguments.model, chosen_chat_template(arguments.chat_template, "--chat-template"), tokenizer_,
            {.default_system_prompt = arguments.system, .list_tools = false})),
        engine_(executor, compute_, load_weights(arguments.model, *tokenizer_),
                {.compute_type = compute_type(arguments.compute_type),
                 .vocabulary_size = tokenizer_->vocabulary_size(),
                 .tokenizer = tokenizer_}) {}

  // The answers to one message, each sampled from its own stream.
  Task<> answer_once() {
    std::vector<int32_t> prompt = whole({{.role = Role::kUser, .content = arguments_.prompt}});
    for (int sample = 0; sample < arguments_.samples; ++sample) {
      co_await generate(prompt, sample, 0);
    }
    co_await engine_.close();
  }

  Task<> answer_batch() {
    co_await generate_batch(arguments_, engine_, *renderer_);
    co_await engine_.close();
  }

  // A conversation: a line of standard input is a message, an answer follows.
  Task<> converse() {
    bool terminal = isatty(STDIN_FILENO) != 0;
    std::vector<Message> messages;
    std::vector<int32_t> tokens;
    for (int turn = 0;; ++turn) {
      if (terminal) std::fputs("> ", stderr);
      std::optional<std::string> line = co_await input_.run(&read_line);
      if (!line) break;
      if (line->empty()) continue;
      messages.push_back({.role = Role::kUser, .content = *line});
      if (tokens.empty())
        tokens = whole(messages);
      else
        extend(tokens, messages);
      std::vector<int32_t> sampled = co_await generate(tokens, 0, turn);
      tokens.insert(tokens.end(), sampled.begin(), sampled.end());
      messages.push_back({.role = Role::kAssistant, .content = words(sampled)});
    }
    co_await engine_.close();
  }

 private:
  static std::optional<std::string> read_line() {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }

  std::vector<int32_t> whole(const std::vector<Message>& messages) const {
    Result<RenderedTokens> rendered = renderer_->render(messages, {}, true);
    if (!rendered) throw input_error("The prompt cannot be rendered: " + rendered.failure().message);
    return rendered->ids;
  }

  // Adds the last message. Where the template rewrites what was before, the conversation is rendered again,
  // as who chats through a server would have it.
  void extend(std::vector<int32_t>& tokens, const std::vector<Message>& messages) const {
    Result<Bridge> bridge = renderer_->bridge(tokens, {&messages.back(), 1});
    if (!bridge) throw input_error("The message cannot be rendered: " + bridge.failure().message);
    if (std::holds_alternative<HistoryRewritten>(*bridge)) {
      tokens = whole(messages);
      return;
    }
    const std::vector<int32_t>& suffix = std::get<RenderedTokens>(*bridge).ids;
    tokens.insert(tokens.end(), suffix.begin(), suffix.end());
  }

  // The text of a turn without the token that ends it.
  std::string words(std::span<const int32_t> sampled) const {
    std::span<const int32_t> stops = renderer_->stop_tokens();
    bool ended = !sampled.empty() && std::find(stops.begin(), stops.end(), sampled.back()) != stops.end();
    return tokenizer_->decode(ended ? sampled.first(sampled.size() - 1) : sampled);
  }

  Task<std::vector<int32_t>> generate(const std::vector<int32_t>& tokens, int sample, int turn) {
    GenerateRequest request{
        .tokens = tokens,
        .sampling = sampling_of(arguments_),
        .stop = {.max_tokens = arguments_.max_tokens,
                 .tokens = {renderer_->stop_tokens().begin(), renderer_->stop_tokens().end()}},
        .stream = {.run_seed = static_cast<uint64_t>(arguments_.seed),
                   .purpose = RandomPurpose::kEvaluate,
                   .sample = static_cast<uint32_t>(sample),
                   .turn = static_cast<uint32_t>(turn)}};
    PrintingSink sink(tokenizer_, *renderer_);
    Result<Completion> completion = co_await engine_.generate(std::move(request), sink);
    sink.finish();
    if (!completion) throw input_error("The model cannot go on: " + completion.failure().message);
    co_return sink.ids();
  }

  const GenerateArguments& arguments_;
  ComputePool compute_;
  Pool input_{{.threads = 1, .name = "input", .abandon_after = Duration(0)}};
  TokenizerPtr tokenizer_;
  std::unique_ptr<const Renderer> renderer_;
  NativeEngine engine_;
};

void check(const GenerateArguments& arguments) {
  if (arguments.max_tokens < 1) throw input_error("--max-tokens must be at least 1.");
  if (arguments.samples < 1) throw input_error("--samples must be at least 1.");
  if (!(arguments.temperature >= 0) || !(arguments.temperature <= 100)) {
    throw input_error("--temperature must be from 0 (greedy) to 100.");
  }
  if (!(arguments.top_p > 0) || !(arguments.top_p <= 1))
    throw input_error("--top-p must be above 0 and at most 1.");
  if (!(arguments.min_p >= 0) || !(arguments.min_p <= 1)) throw input_error("--min-p must be from 0 to 1.");
  if (arguments.top_k < 0) throw input_error("--top-k must be at least 0.");
  compute_type(arguments.compute_type);
  validate(sampling_of(arguments));
  if (!arguments.batch.empty() && !arguments.prompt.empty()) {
    throw input_error("--batch and --prompt exclude each other; put the prompt into the batch.");
  }
  if (arguments.top_log_probabilities > 0 && arguments.batch.empty()) {
    throw input_error("--top-log-probabilities are shown in the answers of a --batch only.");
  }
}

}  // namespace

int run_generate(const GenerateArguments& arguments, InterruptWatch& interrupts) {
  check(arguments);
  check_model_path(arguments.model, "MODEL");
  RealExecutor executor;
  Chat chat(arguments, executor);
  CancellationSource stop;
  auto delivery = interrupts.deliver_to(executor, [&stop] { stop.request(CancelReason::kShutdown); });
  int status = kExitDone;
  try {
    run(executor,
        !arguments.batch.empty()   ? chat.answer_batch()
        : arguments.prompt.empty() ? chat.converse()
                                   : chat.answer_once(),
        stop.token());
  } catch (const Cancelled&) {
    status = kExitInterrupted;
  }
  return status;
}

}  // namespace stoker
