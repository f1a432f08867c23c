#include "engine/process_engine.h"

#include <utility>

#include <fmt/core.h>

#include "async/cancellation.h"
#include "async/timeout.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/request_check.h"

namespace stoker {
namespace {

constexpr size_t kMaxLineBytes = size_t{1} << 30;
constexpr Duration kCloseLimit = std::chrono::seconds(5);

void check_version(const Json& answer, int64_t expected) {
  if (const int64_t version = answer.at("version").as_int(); version != expected) {
    throw input_error(fmt::format("Version {} was asked for, and {} answers.", expected, version));
  }
}

void check_count(const Completion& completion, int32_t came) {
  if (completion.sampled_tokens != came) {
    throw input_error(
        fmt::format("A request ended after {} tokens, and {} came.", completion.sampled_tokens, came));
  }
}

}  // namespace

// One question to the child, on the stack of who waits for the answer.
struct ProcessEngine::Asked {
  TokenSink* sink = nullptr;
  int32_t tokens = 0;  // given to it
  Event answered{"a child's answer"};
  std::optional<Result<Json>> answer;
  std::exception_ptr exception;  // instead of an answer
};

// Forgets the question of who has left before the answer, and tells the child.
class ProcessEngine::Question {
 public:
  Question(ProcessEngine& engine, int64_t id, Asked& asked) : engine_(engine), id_(id) {
    engine_.open_.emplace(id_, &asked);
  }
  ~Question() {
    if (engine_.open_.erase(id_) > 0 && !engine_.lost()) {
      engine_.process_->send(Json::object({{"do", "cancel"}, {"id", id_}}).dump());
    }
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

 private:
  ProcessEngine& engine_;
  int64_t id_;
};

ProcessEngine::ProcessEngine(Executor& executor, WeightsFiles& files, ProcessEngineOptions options)
    : executor_(executor), files_(files), options_(std::move(options)) {}

ProcessEngine::~ProcessEngine() = default;

Task<Result<std::shared_ptr<ReplicaEngine>>> ProcessEngine::start(Executor& executor,
                                                                  ProcessLauncher& launcher,
                                                                  WeightsFiles& files,
                                                                  ProcessEngineOptions options,
                                                                  WeightsPtr weights) {
  const std::shared_ptr<ProcessEngine> engine(new ProcessEngine(executor, files, std::move(options)));
  const Result<Done> begun = co_await engine->begin(launcher, std::move(weights));
  if (!begun) co_return begun.failure();
  co_return std::shared_ptr<ReplicaEngine>(engine);
}

Task<Result<Done>> ProcessEngine::begin(ProcessLauncher& launcher, WeightsPtr weights) {
  auto file = co_await files_.write(std::move(weights));
  if (!file) co_return file.failure();
  file_ = *std::move(file);
  Result<std::unique_ptr<Process>> process = launcher.start(
      {.command = options_.command, .name = options_.name, .max_line_bytes = kMaxLineBytes}, *this);
  if (!process) co_return process.failure();
  process_ = *std::move(process);
  last_heard_ = executor_.now();
  schedule_heartbeat();
  const int64_t version = file_->file().version;
  Json command = Json::object({{"engine", to_json(options_.start)}, {"weights", to_json(file_->file())}});
  const Result<Json> answer = co_await ask("start", std::move(command));
  if (!answer) co_return answer.failure();
  const auto capabilities = understood(*answer, [version](const Json& result) {
    check_version(result, version);
    return engine_capabilities_from_json(result.at("capabilities"));
  });
  if (!capabilities) co_return capabilities.failure();
  version_ = version;
  capabilities_ = *capabilities;
  co_return Done{};
}

Failure ProcessEngine::lost_failure() const {
  return {FailureClass::kInfrastructure, "engine_lost",
          fmt::format("The {} in a process of its own was lost: {}.", options_.name, *lost_reason_)};
}

// The child's answer by its meaning. One that has none ends the child: what it says next would be no better.
template <typename Read>
auto ProcessEngine::understood(const Json& answer, Read read) -> Result<decltype(read(answer))> {
  try {
    return read(answer);
  } catch (const std::exception& error) {
    abandon(fmt::format("it gave an answer that does not fit the question ({})", error.what()));
    return lost_failure();
  }
}

Task<Result<Json>> ProcessEngine::ask(std::string what, Json command, TokenSink* sink) {
  (co_await current_cancellation()).throw_if_requested();
  if (lost()) co_return lost_failure();
  const int64_t id = ++last_id_;
  command.set("do", std::move(what));
  command.set("id", id);
  Asked asked{.sink = sink};
  const Question question(*this, id, asked);
  process_->send(command.dump());
  co_await asked.answered.wait();
  if (asked.exception) std::rethrow_exception(asked.exception);
  co_return *std::move(asked.answer);
}

Task<Result<Completion>> ProcessEngine::generate(GenerateRequest request, TokenSink& sink) {
  if (std::optional<Failure> failure = check_request(request)) co_return *std::move(failure);
  if (request.mask) {
    co_return Failure{FailureClass::kInfrastructure, "unsupported",
                      "An engine in a child process serves no request with a token mask; run one in this "
                      "process."};
  }
  const Result<Json> answer = co_await ask("generate", to_json(request), &sink);
  if (!answer) co_return answer.failure();
  co_return understood(*answer, completion_from_json);
}

Task<Result<std::vector<float>>> ProcessEngine::score(std::vector<int32_t> tokens, float temperature) {
  const size_t scored = tokens.empty() ? 0 : tokens.size() - 1;
  const Result<Json> answer = co_await ask(
      "score",
      Json::object({{"tokens", tokens_to_json(tokens)}, {"temperature", float_to_json(temperature)}}));
  if (!answer) co_return answer.failure();
  co_return understood(*answer, [scored](const Json& result) {
    std::vector<float> scores = floats_from_json(result);
    if (scores.size() != scored) {
      throw input_error(fmt::format("{} scores were asked for, and {} came.", scored, scores.size()));
    }
    return scores;
  });
}

Task<Result<Done>> ProcessEngine::prepare(WeightsPtr weights) {
  if (lost()) co_return lost_failure();
  auto file = co_await files_.write(std::move(weights));
  if (!file) co_return file.failure();
  file_ = *std::move(file);
  const Result<Json> answer = co_await ask("prepare", Json::object({{"weights", to_json(file_->file())}}));
  if (!answer) co_return answer.failure();
  co_return Done{};
}

Task<Result<Done>> ProcessEngine::commit(int64_t version) {
  const Result<Json> answer = co_await ask("commit", Json::object({{"version", version}}));
  if (!answer) co_return answer.failure();
  const Result<Done> swapped = understood(*answer, [version](const Json& result) {
    check_version(result, version);
    return Done{};
  });
  if (swapped) version_ = version;
  co_return swapped;
}

Task<Result<Done>> ProcessEngine::publish(WeightsPtr weights) {
  const int64_t version = weights->version();
  Result<Done> ready = co_await prepare(std::move(weights));
  if (!ready) co_return ready;
  co_return co_await commit(version);
}

void ProcessEngine::on_line(std::string_view line) {
  last_heard_ = executor_.now();
  if (lost()) return;
  try {
    take(Json::parse(line, "a line of an engine's process"));
  } catch (const std::exception& error) {
    abandon(fmt::format("it wrote a line that is not of the protocol ({})", error.what()));
  }
}

void ProcessEngine::take(const Json& message) {
  if (const Json* statistics = message.find("statistics")) {
    statistics_ = engine_statistics_from_json(*statistics);
  }
  if (const Json* started = message.find("started")) {
    for (const Json& id : started->as_array()) {
      tell_sink(id.as_int(), [](Asked& asked) { asked.sink->started(); });
    }
  }
  if (const Json* tokens = message.find("tokens")) {
    for (const Json& element : tokens->as_array()) take_token(element);
  }
  if (message.find("id") != nullptr) take_answer(message);
}

void ProcessEngine::take_token(const Json& element) {
  const EngineTokenMessage message = engine_token_from_json(element);
  if (message.token.id < 0 || message.token.id >= options_.start.config.vocab_size) {
    throw input_error(fmt::format("Token {} is none of the model's {}.", message.token.id,
                                  options_.start.config.vocab_size));
  }
  tell_sink(message.request, [&message](Asked& asked) {
    ++asked.tokens;
    asked.sink->accept(message.token);
  });
}

// What a sink throws is its owner's, not the child's: it ends the request there.
template <typename Call>
void ProcessEngine::tell_sink(int64_t request, Call call) {
  const auto found = open_.find(request);
  if (found == open_.end() || found->second->sink == nullptr) return;  // cancelled meanwhile
  Asked& asked = *found->second;
  try {
    call(asked);
  } catch (...) {
    asked.exception = std::current_exception();
    open_.erase(found);
    process_->send(Json::object({{"do", "cancel"}, {"id", request}}).dump());
    asked.answered.set();
  }
}

void ProcessEngine::take_answer(const Json& message) {
  const auto found = open_.find(message.at("id").as_int());
  if (found == open_.end()) return;  // cancelled meanwhile, or a ping
  Asked& asked = *found->second;
  if (const Json* result = message.find("result")) {
    if (asked.sink != nullptr) check_count(completion_from_json(*result), asked.tokens);
    asked.answer = *result;
  } else if (const Json* failure = message.find("failure")) {
    asked.answer = failure_from_json(*failure);
  } else {
    const Error error = error_from_json(message.at("error"));
    if (error.kind() != ErrorKind::kInput) {
      return abandon(fmt::format("it ended a question with an error ({})", error.what()));
    }
    asked.exception = std::make_exception_ptr(error);
  }
  open_.erase(found);
  asked.answered.set();
}

void ProcessEngine::abandon(const std::string& reason) {
  if (process_ && !ended_) process_->kill(reason);
  lose(reason);
}

void ProcessEngine::on_end(const ProcessEnd& end) {
  ended_ = true;
  end_.set();
  lose(end.describe());
}

void ProcessEngine::lose(const std::string& reason) {
  if (lost()) return;
  lost_reason_ = reason;
  heartbeat_.reset();
  statistics_.running_requests = statistics_.waiting_requests = 0;
  for (const auto& [id, asked] : std::exchange(open_, {})) {
    asked->answer = lost_failure();
    asked->answered.set();
  }
  if (when_lost_) std::exchange(when_lost_, nullptr)();
}

void ProcessEngine::schedule_heartbeat() {
  heartbeat_ = executor_.post_at(executor_.now() + options_.heartbeat, [this] { beat(); });
}

// What lies in the pipe counts: the loop may have been busy.
void ProcessEngine::beat() {
  process_->read_now();
  if (lost()) return;
  if (executor_.now() - last_heard_ > options_.heartbeat_limit) {
    return abandon(fmt::format("it had said nothing for {:.0f} s", to_seconds(options_.heartbeat_limit)));
  }
  process_->send(Json::object({{"do", "ping"}, {"id", ++last_id_}}).dump());
  schedule_heartbeat();
}

Task<> ProcessEngine::close() {
  if (!process_ || ended_) co_return;
  lose("it is being closed");
  process_->close_input();
  if (!co_await with_timeout(kCloseLimit, end_.wait())) {
    process_->kill("it did not end when its input was closed");
    co_await with_timeout(kCloseLimit, end_.wait());
  }
}

}  // namespace stoker
