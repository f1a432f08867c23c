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

}  // namespace

// One question to the child, on the stack of who waits for the answer.
struct ProcessEngine::Asked {
  TokenSink* sink = nullptr;
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
  Json command = Json::object({{"engine", to_json(options_.start)}, {"weights", to_json(file_->file())}});
  const Result<Json> answer = co_await ask("start", std::move(command));
  if (!answer) co_return answer.failure();
  version_ = answer->at("version").as_int();
  capabilities_ = engine_capabilities_from_json(answer->at("capabilities"));
  schedule_heartbeat();
  co_return Done{};
}

Failure ProcessEngine::lost_failure() const {
  return {FailureClass::kInfrastructure, "engine_lost",
          fmt::format("The {} in a process of its own was lost: {}.", options_.name, *lost_reason_)};
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
  co_return completion_from_json(*answer);
}

Task<Result<std::vector<float>>> ProcessEngine::score(std::vector<int32_t> tokens, float temperature) {
  const Result<Json> answer = co_await ask(
      "score",
      Json::object({{"tokens", tokens_to_json(tokens)}, {"temperature", float_to_json(temperature)}}));
  if (!answer) co_return answer.failure();
  co_return floats_from_json(*answer);
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
  version_ = answer->at("version").as_int();
  co_return Done{};
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
  } catch (const Error& error) {
    abandon(fmt::format("it wrote a line that is not of the protocol ({})", error.what()));
  }
}

void ProcessEngine::take(const Json& message) {
  if (const Json* statistics = message.find("statistics")) {
    statistics_ = engine_statistics_from_json(*statistics);
  }
  if (const Json* started = message.find("started")) {
    for (const Json& id : started->as_array()) {
      const auto found = open_.find(id.as_int());
      if (found != open_.end() && found->second->sink != nullptr) found->second->sink->started();
    }
  }
  if (const Json* tokens = message.find("tokens")) {
    for (const Json& element : tokens->as_array()) take_token(element);
  }
  if (message.find("id") != nullptr) take_answer(message);
}

void ProcessEngine::take_token(const Json& element) {
  const EngineTokenMessage message = engine_token_from_json(element);
  const auto found = open_.find(message.request);
  if (found == open_.end() || found->second->sink == nullptr) return;  // cancelled meanwhile
  Asked& asked = *found->second;
  try {
    asked.sink->accept(message.token);
  } catch (...) {
    asked.exception = std::current_exception();
    open_.erase(found);
    process_->send(Json::object({{"do", "cancel"}, {"id", message.request}}).dump());
    asked.answered.set();
  }
}

void ProcessEngine::take_answer(const Json& message) {
  const auto found = open_.find(message.at("id").as_int());
  if (found == open_.end()) return;  // cancelled meanwhile, or a ping
  Asked& asked = *found->second;
  if (const Json* result = message.find("result")) {
    asked.answer = *result;
  } else if (const Json* failure = message.find("failure")) {
    asked.answer = failure_from_json(*failure);
  } else {
    asked.exception = error_from_json(message.at("error"));
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
