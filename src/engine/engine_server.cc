#include "engine/engine_server.h"

#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "async/cancellation.h"
#include "base/error.h"

namespace stoker {
namespace {

// A failure on its way out of carry_out.
struct Refused {
  Failure failure;
};

template <typename T>
T value_of(Result<T> result) {
  if (!result) throw Refused{result.failure()};
  return *std::move(result);
}

}  // namespace

// Gathers what one decode step gives, for one line.
class EngineServer::Sink final : public TokenSink {
 public:
  Sink(EngineServer& server, int64_t id) : server_(server), id_(id) {}

  void started() override {
    server_.started_ += fmt::format("{}{}", server_.started_.empty() ? "" : ",", id_);
    server_.post_flush();
  }
  void accept(const SampledToken& token) override {
    append_token(server_.tokens_, id_, token);
    server_.post_flush();
  }

 private:
  EngineServer& server_;
  int64_t id_;
};

EngineServer::EngineServer(Executor& executor, Pool& blocking, MakeEngine make_engine, Write write)
    : executor_(executor),
      blocking_(blocking),
      make_engine_(std::move(make_engine)),
      write_(std::move(write)),
      scope_(executor) {}

EngineServer::~EngineServer() { *self_ = nullptr; }

void EngineServer::post_flush() {
  if (std::exchange(flush_posted_, true)) return;
  executor_.post([self = self_] {
    if (EngineServer* server = *self) server->flush();
  });
}

// Tokens go out before the ends of their requests: whoever ends one flushes first.
void EngineServer::flush() {
  flush_posted_ = false;
  if (started_.empty() && tokens_.empty()) return;
  std::string line = "{";
  if (!started_.empty()) line += fmt::format("\"started\":[{}]", started_);
  if (!tokens_.empty()) line += fmt::format("{}\"tokens\":[{}]", started_.empty() ? "" : ",", tokens_);
  if (engine_) line += fmt::format(",\"statistics\":{}", to_json(engine_->statistics()).dump());
  line += '}';
  started_.clear();
  tokens_.clear();
  write_(line);
}

void EngineServer::take(std::string_view line) {
  Json command = Json::parse(line, "a line of the parent");
  const int64_t id = command.at("id").as_int();
  const std::string what = command.at("do").as_string();
  if (what == "cancel") {
    const auto found = running_.find(id);
    if (found != running_.end()) found->second.request(CancelReason::kRequested);
    return;
  }
  const auto [entry, added] = running_.try_emplace(id);
  if (!added) throw input_error(fmt::format("The parent has given the number {} twice.", id));
  scope_.spawn(with_cancellation(entry->second.token(), answer(id, what, std::move(command))), what);
}

Task<> EngineServer::answer(int64_t id, std::string what, Json command) {
  Json line = Json::object({{"id", id}});
  try {
    line.set("result", co_await carry_out(id, std::move(what), std::move(command)));
  } catch (const Cancelled&) {
    running_.erase(id);
    co_return;  // the parent does not wait for it any more
  } catch (const Refused& refused) {
    line.set("failure", to_json(refused.failure));
  } catch (...) {
    line.set("error", error_to_json(std::current_exception()));
  }
  running_.erase(id);
  flush();
  if (engine_) line.set("statistics", to_json(engine_->statistics()));
  write_(line.dump());
}

ReplicaEngine& EngineServer::engine() const {
  if (!engine_) throw internal_error("An engine in a child process was asked before it was started.");
  return *engine_;
}

Task<Json> EngineServer::carry_out(int64_t id, std::string what, Json command) {
  if (what == "ping") co_return Json::object();
  if (what == "start") co_return co_await start(std::move(command));
  if (what == "generate") {
    Sink sink(*this, id);
    co_return to_json(value_of(co_await engine().generate(generate_request_from_json(command), sink)));
  }
  if (what == "score") {
    co_return floats_to_json(value_of(co_await engine().score(tokens_from_json(command.at("tokens")),
                                                              float_from_json(command.at("temperature")))));
  }
  if (what == "prepare") {
    const WeightsFile file = weights_file_from_json(command.at("weights"));
    WeightsPtr weights =
        co_await blocking_.run([file, config = config_] { return read_weights_file(file, config); });
    value_of(co_await engine().prepare(std::move(weights)));
    co_return Json::object();
  }
  if (what == "commit") {
    value_of(co_await engine().commit(command.at("version").as_int()));
    co_return Json::object({{"version", engine().version()}});
  }
  throw input_error(fmt::format("An engine in a child process cannot '{}'.", what));
}

Task<Json> EngineServer::start(Json command) {
  if (engine_) throw internal_error("An engine in a child process was started twice.");
  const EngineStart start = engine_start_from_json(command.at("engine"));
  const WeightsFile file = weights_file_from_json(command.at("weights"));
  config_ = start.config;
  const WeightsPtr weights =
      co_await blocking_.run([file, config = config_] { return read_weights_file(file, config); });
  engine_ = make_engine_(start, weights);
  co_return Json::object(
      {{"version", engine_->version()}, {"capabilities", to_json(engine_->capabilities())}});
}

Task<> EngineServer::finish() {
  scope_.cancel(CancelReason::kShutdown);
  co_await shielded(scope_.join());
  if (engine_) co_await shielded(engine_->close());
}

}  // namespace stoker
