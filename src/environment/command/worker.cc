#include "environment/command/worker.h"

#include <fmt/core.h>

#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "io/error_stream.h"

namespace stoker {
namespace {

constexpr int kStrayLimit = 1000;    // in a row
constexpr int64_t kStrayTold = 100;  // of one process
constexpr size_t kStrayBytesTold = 200;
constexpr size_t kMaxUnsentBytes = size_t{4} << 20;
constexpr Duration kFinishGrace = std::chrono::seconds(10);
constexpr int kLogLinesASecond = 200;

// Forgets a request whose caller has left, and tells the process.
class Forget {
 public:
  Forget(std::map<int64_t, std::function<void(Result<Json>)>>& open, Process& process, int64_t id,
         bool& unanswered)
      : open_(open), process_(process), id_(id), unanswered_(unanswered) {}
  ~Forget() {
    if (open_.erase(id_) == 0) return;
    unanswered_ = true;
    process_.send(cancel_line(id_));
  }
  Forget(const Forget&) = delete;
  Forget& operator=(const Forget&) = delete;

 private:
  std::map<int64_t, std::function<void(Result<Json>)>>& open_;
  Process& process_;
  int64_t id_;
  bool& unanswered_;
};

// What an uncancellable request and its caller share: the caller may leave first.
struct Shared {
  Event answered{"answer of a process"};
  std::optional<Result<Json>> answer;
};

}  // namespace

Worker::~Worker() = default;

void Worker::start(ProcessLauncher& launcher) {
  ProcessOptions options{.command = options_.command,
                         .environment = options_.environment_variables,
                         .working_folder = options_.working_folder,
                         .name = name_,
                         .max_line_bytes = static_cast<size_t>(options_.max_line_bytes),
                         .max_unsent_bytes = kMaxUnsentBytes};
  Result<std::unique_ptr<Process>> process = launcher.start(options, *this);
  if (!process) {
    timer_ = executor_.post_at(executor_.now(), [this, reason = process.failure().message] { gone(reason); });
    return;
  }
  process_ = *std::move(process);
  const Result<int64_t> sent = send("hello", hello_params(options_.max_line_bytes),
                                    [this](Result<Json> answer) { greeted(std::move(answer)); });
  if (!sent) return kill(sent.failure().message);
  timer_ = executor_.post_at(executor_.now() + from_seconds(options_.start_timeout_seconds),
                             [this] { hello_overdue(); });
}

// The answer may lie in the pipe: the loop may have been busy, or not running.
void Worker::hello_overdue() {
  process_->read_now();
  if (ready_ || gone_) return;
  kill(fmt::format("it had not answered hello after {} s", options_.start_timeout_seconds));
}

void Worker::greeted(Result<Json> answer) {
  if (gone_) return;
  Result<Greeting> greeting = answer ? decode_greeting(*answer) : Result<Greeting>(answer.failure());
  if (!greeting) return kill(greeting.failure().message);
  greeting_ = *std::move(greeting);
  ready_ = true;
  schedule_heartbeat();
  if (keeper_ != nullptr) keeper_->worker_ready(*this);
}

Result<int64_t> Worker::send(std::string_view method, Json params, Settle settle) {
  if (gone_ || finishing_ || !process_) return ended();
  const int64_t id = ++last_id_;
  std::string line = request_line(id, method, std::move(params));
  const int64_t limit = ready_ ? greeting_.line_bytes : options_.max_line_bytes;
  if (static_cast<int64_t>(line.size()) >= limit) {
    return Failure{
        FailureClass::kInfrastructure, "too_large",
        fmt::format("The request {} has {} bytes; {} reads at most {}.", method, line.size(), name_, limit)};
  }
  open_.emplace(id, std::move(settle));
  process_->send(line);
  return id;
}

Task<Result<Json>> Worker::ask(std::string method, Json params) {
  while (process_ && !gone_ && process_->unsent_bytes() > kMaxUnsentBytes) {
    writable_.reset();
    co_await writable_.wait();
  }
  Event answered("answer of a process");
  std::optional<Result<Json>> answer;
  const Result<int64_t> id = send(method, std::move(params), [&answered, &answer](Result<Json> given) {
    answer = std::move(given);
    answered.set();
  });
  if (!id) co_return id.failure();
  const Forget forget(open_, *process_, *id, unanswered_);
  co_await answered.wait();
  co_return *std::move(answer);
}

Task<Result<Json>> Worker::ask_uncancellable(std::string method, Json params, std::function<void()> settled) {
  auto shared = std::make_shared<Shared>();
  const Result<int64_t> id = send(method, std::move(params), [shared, settled](Result<Json> given) {
    shared->answer = std::move(given);
    shared->answered.set();
    if (settled) settled();
  });
  if (!id) {
    if (settled) settled();
    co_return id.failure();
  }
  co_await shared->answered.wait();
  co_return *std::move(shared->answer);
}

void Worker::on_line(std::string_view line) {
  if (line.find_first_not_of(" \t") == std::string_view::npos) return;
  ProtocolMessage message = decode_message(line);
  if (const auto* wrong = std::get_if<StrayLine>(&message)) return stray(line, wrong->problem);
  stray_run_ = 0;
  if (auto* answer = std::get_if<ProtocolAnswer>(&message)) return take(std::move(*answer));
  log(std::get<ProtocolLog>(message));
}

void Worker::log(const ProtocolLog& log) {
  if (executor_.now() - log_second_ >= std::chrono::seconds(1)) {
    log_second_ = executor_.now();
    log_lines_ = 0;
  }
  if (++log_lines_ > kLogLinesASecond) return;
  log_message(
      log.level,
      fmt::format("[{}{}{}] {}{}", name_, log.episode.empty() ? "" : " ", log.episode, printable(log.message),
                  log_lines_ == kLogLinesASecond ? " (more in this second is left out)" : ""));
}

void Worker::take(ProtocolAnswer answer) {
  auto* error = std::get_if<ProtocolError>(&answer.content);
  if (error != nullptr && error->error_class != "cancelled" && !error->traceback.empty()) {
    log_debug("[{}] {}", name_, error->traceback);
  }
  if (!answer.id) {
    log_warning("[{}] It did not understand a line: {}", name_, error ? printable(error->message) : "");
    return;
  }
  const auto found = open_.find(*answer.id);
  if (found == open_.end()) return;  // cancelled before
  const Settle settle = std::move(found->second);
  open_.erase(found);
  served_ = served_ || ready_;
  if (error != nullptr) {
    settle(error->failure());
  } else {
    settle(std::move(std::get<Json>(answer.content)));
  }
}

void Worker::stray(std::string_view line, const std::string& problem) {
  if (++stray_told_ <= kStrayTold) {
    log_info("[{}] stray output ({}): {}", name_, problem, printable(line.substr(0, kStrayBytesTold)));
    if (stray_told_ == kStrayTold) log_info("[{}] Further stray output is passed over.", name_);
  }
  if (++stray_run_ > kStrayLimit) {
    kill(fmt::format("it wrote more than {} lines in a row that are no messages", kStrayLimit));
  }
}

void Worker::schedule_heartbeat() {
  timer_ = executor_.post_at(executor_.now() + from_seconds(options_.heartbeat_seconds), [this] { ping(); });
}

void Worker::ping() {
  ping_open_ = true;
  const Result<int64_t> sent = send("ping", Json::object(), [this](Result<Json> answer) {
    ping_open_ = false;
    if (gone_ || finishing_) return;
    if (!answer) return kill("it answered a ping with an error: " + answer.failure().message);
    const PingAnswer ping = decode_ping(*answer);
    schedule_heartbeat();
    if (ping.stuck < options_.stuck_limit || std::exchange(told_stuck_, true)) return;
    log_warning("[{}] {} requests that were given up still hold a thread; it is replaced.", name_,
                ping.stuck);
    if (keeper_ != nullptr) keeper_->worker_stuck(*this);
  });
  if (!sent) return;
  timer_ = executor_.post_at(executor_.now() + from_seconds(options_.heartbeat_timeout_seconds),
                             [this] { ping_overdue(); });
}

void Worker::ping_overdue() {
  process_->read_now();
  if (!ping_open_ || gone_) return;
  kill(fmt::format("it had not answered a ping after {} s", options_.heartbeat_timeout_seconds));
}

void Worker::kill(std::string_view problem) {
  if (process_ && !gone_) process_->kill(problem);
}

void Worker::finish() {
  if (gone_ || std::exchange(finishing_, true)) return;
  if (process_) process_->close_input();
  timer_ = executor_.post_at(executor_.now() + kFinishGrace,
                             [this] { kill("it did not end when its input was closed"); });
}

void Worker::close_input() {
  keeper_ = nullptr;
  timer_.reset();
  finishing_ = true;
  if (process_ && !gone_) process_->close_input();
}

bool Worker::wait_blocking(Duration limit) { return !process_ || gone_ || process_->wait_blocking(limit); }

void Worker::on_end(const ProcessEnd& end) { gone(end.describe()); }

void Worker::gone(const std::string& reason) {
  gone_ = true;
  end_reason_ = reason;
  timer_.reset();
  std::map<int64_t, Settle> open = std::exchange(open_, {});
  for (auto& [id, settle] : open) settle(ended());
  writable_.set();
  if (keeper_ != nullptr) keeper_->worker_gone(*this, reason);
}

Failure Worker::ended() const {
  return {FailureClass::kInfrastructure, "process_ended",
          end_reason_.empty() ? fmt::format("The process '{}' is being ended.", name_)
                              : fmt::format("The process '{}' ended: {}.", name_, end_reason_)};
}

void check_command_options(const CommandOptions& options, const std::string& section) {
  if (options.command.empty() || options.command[0].empty()) {
    throw input_error(fmt::format(
        "{}.command is empty; name a program and its arguments, as in [\"python3\", \"-m\", \"stoker_env\", "
        "\"serve\", \"my_module:name\"].",
        section));
  }
  for (const std::string& variable : options.environment_variables) {
    if (variable.find('=') == std::string::npos || variable.starts_with('=')) {
      throw input_error(
          fmt::format("{}.environment_variables holds \"{}\"; write NAME=value.", section, variable));
    }
  }
}

}  // namespace stoker
