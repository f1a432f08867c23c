#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/event.h"
#include "async/executor.h"
#include "engine/engine_protocol.h"
#include "engine/replica_engine.h"
#include "engine/weights_file.h"
#include "io/process.h"

namespace stoker {

struct ProcessEngineOptions {
  std::vector<std::string>
      command;                  // a program that serves an engine on its pipes: {"stoker", "engine", "serve"}
  std::string name = "engine";  // in the log
  EngineStart start;
  // A child that says nothing for heartbeat_limit, though it is asked every `heartbeat`, is hung and killed.
  Duration heartbeat = std::chrono::seconds(10);
  Duration heartbeat_limit = std::chrono::seconds(120);
};

// An engine in a child process. Tokens come as the child makes them, bit for bit as an engine here would make
// them; new weights go to it by file. Cancelling returns at once, and the child ends the request within one
// decode step. When the child ends, by SIGKILL or in whatever way, the object is lost: requests in flight
// fail with infrastructure.engine_lost, and their sinks keep what was accepted. A child that lives and is
// broken is ended in the same way: one that writes what is not of the protocol, gives an answer that does not
// fit the question, or ends a question with an Error of another kind than kInput. Only that kind is the
// asker's, and thrown there. A request with a TokenMask, which is code, is the failure
// infrastructure.unsupported.
//
// Must not be destroyed while one of its tasks is awaited. Loop thread only.
class ProcessEngine final : public ReplicaEngine, private ProcessListener {
 public:
  // Starts a child that serves `weights` and waits until it does; one that says nothing meanwhile is hung
  // too. `executor`, `launcher` and `files` must outlive it. Fails with infrastructure.spawn, engine_lost or
  // weights_file, and throws the Error(kInput) that the child's engine threw when it was made.
  static Task<Result<std::shared_ptr<ReplicaEngine>>> start(Executor& executor, ProcessLauncher& launcher,
                                                            WeightsFiles& files, ProcessEngineOptions options,
                                                            WeightsPtr weights);
  ~ProcessEngine() override;

  EngineCapabilities capabilities() const override { return capabilities_; }
  Task<Result<Completion>> generate(GenerateRequest request, TokenSink& sink) override;
  Task<Result<std::vector<float>>> score(std::vector<int32_t> tokens, float temperature) override;
  Task<Result<Done>> publish(WeightsPtr weights) override;
  int64_t version() const override { return version_; }
  EngineStatistics statistics() const override { return statistics_; }

  Task<Result<Done>> prepare(WeightsPtr weights) override;
  Task<Result<Done>> commit(int64_t version) override;
  bool lost() const override { return lost_reason_.has_value(); }
  void when_lost(std::function<void()> function) override { when_lost_ = std::move(function); }
  // Kills the child.
  void abandon(const std::string& reason) override;
  std::string lost_reason() const override { return lost_reason_.value_or(""); }
  bool computes_here() const override { return false; }
  bool takes_masks() const override { return false; }
  // Asks the child to end, and kills it when it has not after some seconds.
  Task<> close() override;

  int process_id() const { return process_ ? process_->id() : 0; }

 private:
  struct Asked;
  class Question;

  ProcessEngine(Executor& executor, WeightsFiles& files, ProcessEngineOptions options);

  Task<Result<Done>> begin(ProcessLauncher& launcher, WeightsPtr weights);
  Task<Result<Json>> ask(std::string what, Json command, TokenSink* sink = nullptr);
  template <typename Read>
  auto understood(const Json& answer, Read read) -> Result<decltype(read(answer))>;
  template <typename Call>
  void tell_sink(int64_t request, Call call);
  void on_line(std::string_view line) override;
  void on_writable() override {}
  void on_end(const ProcessEnd& end) override;
  void take(const Json& message);
  void take_token(const Json& element);
  void take_answer(const Json& message);
  void lose(const std::string& reason);
  void schedule_heartbeat();
  void beat();
  Failure lost_failure() const;

  Executor& executor_;
  WeightsFiles& files_;
  ProcessEngineOptions options_;
  std::unique_ptr<Process> process_;
  std::map<int64_t, Asked*> open_;  // by number
  int64_t last_id_ = 0;
  EngineCapabilities capabilities_;
  EngineStatistics statistics_;
  int64_t version_ = 0;
  // The files that the child may still have to read; they are removed once nobody holds them.
  std::shared_ptr<const OwnedWeightsFile> file_;
  std::optional<std::string> lost_reason_;
  std::function<void()> when_lost_;
  bool ended_ = false;  // the child is gone
  Event end_{"the end of a child"};
  std::unique_ptr<Timer> heartbeat_;
  TimePoint last_heard_{};
};

}  // namespace stoker
