#include "io/testing/scripted_process.h"

#include <algorithm>
#include <utility>

namespace stoker::testing {
namespace {

constexpr uint64_t kDelayNanoseconds = 2'000'000;

class Running final : public Process, public ScriptedProcess {
 public:
  Running(Executor& executor, std::unique_ptr<ProcessScript> script, ProcessListener& listener, int number,
          std::shared_ptr<int> running)
      : executor_(executor),
        script_(std::move(script)),
        listener_(listener),
        number_(number),
        running_(std::move(running)) {
    ++*running_;
    later([this] { script_->started(*this); });
  }
  ~Running() override {
    *self_ = nullptr;
    if (!ended_) --*running_;
  }

  void send(std::string_view line) override {
    if (closing_) return;
    unsent_ += line.size();
    later([this, text = std::string(line)] {
      unsent_ -= text.size();
      script_->line(*this, text);
    });
  }
  size_t unsent_bytes() const override { return unsent_; }
  void close_input() override {
    if (std::exchange(closing_, true)) return;
    later([this] { script_->input_closed(*this); });
  }
  void terminate() override { end({.signal = 15}); }
  void kill(std::string_view problem) override { end({.signal = 9, .problem = std::string(problem)}); }
  void read_now() override {}
  bool wait_blocking(Duration) override { return true; }
  int id() const override { return 100 + number_; }

  void say(std::string line) override {
    later([this, line = std::move(line)] { listener_.on_line(line); });
  }
  void end(ProcessEnd end) override {
    if (std::exchange(ending_, true)) return;
    later([this, end = std::move(end)] {
      ended_ = true;
      --*running_;
      listener_.on_end(end);
    });
  }
  void after(Duration delay, std::function<void()> function) override {
    timers_.push_back(executor_.post_at(executor_.now() + delay, [this, function = std::move(function)] {
      if (!ending_) function();
    }));
  }
  int number() const override { return number_; }

 private:
  // In the order of the calls: a pipe keeps its order, however long it takes.
  void later(std::function<void()> function) {
    next_ = std::max(next_, executor_.now()) + Duration(1 + executor_.draw(kDelayNanoseconds));
    timers_.push_back(executor_.post_at(next_, [this, function = std::move(function)] {
      if (!ended_) function();
    }));
    // Posted, for one of the timers may be firing now.
    if (timers_.size() % 64 == 0) {
      executor_.post([self = self_] {
        if (Running* process = *self) process->forget_fired();
      });
    }
  }

  void forget_fired() {
    std::erase_if(timers_, [](const std::unique_ptr<Timer>& timer) { return !timer->armed(); });
  }

  Executor& executor_;
  std::unique_ptr<ProcessScript> script_;
  ProcessListener& listener_;
  int number_;
  std::shared_ptr<int> running_;
  std::shared_ptr<Running*> self_ = std::make_shared<Running*>(this);
  std::vector<std::unique_ptr<Timer>> timers_;
  TimePoint next_{};
  size_t unsent_ = 0;
  bool closing_ = false;
  bool ending_ = false;
  bool ended_ = false;
};

}  // namespace

void ProcessScript::input_closed(ScriptedProcess& process) { process.end({}); }

Result<std::unique_ptr<Process>> ScriptedLauncher::start(const ProcessOptions& options,
                                                         ProcessListener& listener) {
  const int number = starts_++;
  std::unique_ptr<ProcessScript> script = make_(number);
  if (!script) {
    return Failure{FailureClass::kInfrastructure, "spawn", "The program scripted cannot be started."};
  }
  return Result<std::unique_ptr<Process>>(
      std::make_unique<Running>(executor_, std::move(script), listener, number, running_));
}

}  // namespace stoker::testing
