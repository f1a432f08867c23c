#include "environment/command/worker_pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "io/system_process.h"

namespace stoker {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kLongestPause = std::chrono::seconds(10);
constexpr Duration kApartLinger = std::chrono::seconds(10);
constexpr Duration kEndGrace =
    std::chrono::seconds(6);  // the protocol gives a process five to close episodes

Duration pause_after(int failures) {
  if (failures <= 1) return {};
  Duration pause = kFirstPause;
  for (int i = 2; i < failures && pause < kLongestPause; ++i) pause *= 2;
  return std::min(pause, kLongestPause);
}

}  // namespace

WorkerLease& WorkerLease::operator=(WorkerLease&& other) noexcept {
  if (this != &other) {
    release();
    pool_ = std::move(other.pool_);
    worker_ = std::move(other.worker_);
    owner_ = std::move(other.owner_);
  }
  return *this;
}

void WorkerLease::release() {
  const std::shared_ptr<Worker> worker = std::exchange(worker_, nullptr);
  const std::shared_ptr<WorkerPool> pool = std::exchange(pool_, nullptr);
  if (worker) pool->give_back(*worker, owner_, true);
}

void WorkerLease::release_unused() {
  const std::shared_ptr<Worker> worker = std::exchange(worker_, nullptr);
  const std::shared_ptr<WorkerPool> pool = std::exchange(pool_, nullptr);
  if (worker) pool->give_back(*worker, owner_, false);
}

std::function<void()> WorkerLease::release_later() {
  Worker* worker = std::exchange(worker_, nullptr).get();
  return [worker, owner = std::move(owner_), pool = std::weak_ptr(std::exchange(pool_, nullptr))] {
    if (const std::shared_ptr<WorkerPool> living = pool.lock()) living->give_back(*worker, owner, true);
  };
}

// Takes a claim back when its task leaves before it has taken its place.
class WorkerPool::Withdraw {
 public:
  Withdraw(WorkerPool& pool, Claim& claim) : pool_(pool), claim_(claim) {}
  ~Withdraw() {
    std::erase(pool_.claims_, &claim_);
    std::erase(pool_.claims_apart_, &claim_);
    if (claim_.worker) pool_.give_back(*claim_.worker, {}, false);
  }
  Withdraw(const Withdraw&) = delete;
  Withdraw& operator=(const Withdraw&) = delete;

 private:
  WorkerPool& pool_;
  Claim& claim_;
};

WorkerPool::WorkerPool(CommandOptions options, std::string section, MakeLauncher make_launcher)
    : options_(std::make_shared<const CommandOptions>(std::move(options))),
      section_(std::move(section)),
      make_launcher_(make_launcher ? std::move(make_launcher) : make_system_launcher),
      slots_(static_cast<size_t>(options_->processes + std::max(1, options_->processes / 2))) {
  check_command_options(*options_, section_);
  for (size_t i = static_cast<size_t>(options_->processes); i < slots_.size(); ++i) {
    slots_[i].apart = true;
    slots_[i].first = false;
  }
}

WorkerPool::~WorkerPool() {
  std::vector<std::shared_ptr<Worker>> workers(draining_.begin(), draining_.end());
  for (Slot& slot : slots_) {
    slot.timer.reset();
    if (slot.worker) workers.push_back(slot.worker);
  }
  for (const auto& worker : workers) worker->close_input();
  const auto deadline = std::chrono::steady_clock::now() + kEndGrace;
  for (const auto& worker : workers) {
    worker->wait_blocking(std::chrono::duration_cast<Duration>(deadline - std::chrono::steady_clock::now()));
  }
}

Task<> WorkerPool::open() {
  if (opened_) co_return;
  if (executor_ == nullptr) {
    executor_ = &co_await current_executor();
    launcher_ = make_launcher_(*executor_);
    start(slots_[0]);
  }
  co_await started_.wait();
  if (!opened_) {
    throw input_error(
        fmt::format("{}: the process cannot be used: {}. The command was: {}", section_, open_failure_,
                    Json(Json::Array(options_->command.begin(), options_->command.end())).dump()));
  }
}

void WorkerPool::start(Slot& slot) {
  slot.starts = false;
  const auto index = &slot - slots_.data();
  const std::string name = section_.substr(0, section_.find('.'));
  slot.worker = std::make_shared<Worker>(*executor_, options_, *this, fmt::format("{} {}", name, index));
  slot.worker->start(*launcher_);
}

WorkerPool::Slot* WorkerPool::slot_of(const Worker& worker) {
  for (Slot& slot : slots_) {
    if (slot.worker.get() == &worker) return &slot;
  }
  return nullptr;
}

void WorkerPool::worker_ready(Worker& worker) {
  if (!opened_) {
    opened_ = true;
    greeting_ = worker.greeting();
    for (Slot& slot : slots_) {
      if (!slot.worker && !slot.apart) start(slot);
    }
  } else if (!(worker.greeting() == greeting_)) {
    log_warning("[{}] It offers other environments, tools or rewards than the first process did.",
                worker.name());
  }
  Slot* slot = slot_of(worker);
  if (slot != nullptr) first_is_over(*slot);
  serve();
  if (slot != nullptr && slot->apart && worker.load == 0) end_when_idle(*slot);
}

void WorkerPool::first_is_over(Slot& slot) {
  slot.first = false;
  if (std::none_of(slots_.begin(), slots_.end(), [](const Slot& other) { return other.first; }))
    started_.set();
}

void WorkerPool::worker_stuck(Worker& worker) {
  Slot* slot = slot_of(worker);
  if (slot == nullptr || !given_up_.empty()) return;
  ++replaced_;
  if (++replaced_in_a_row_ > options_->restarts) return give_up("too many of its requests never end");
  draining_.push_back(slot->worker);
  if (worker.load == 0) worker.finish();
  slot->worker = nullptr;
  if (slot->apart) return serve();
  start(*slot);
}

void WorkerPool::worker_gone(Worker& worker, const std::string& reason) {
  Slot* slot = slot_of(worker);
  if (slot == nullptr) {
    const auto old =
        std::find_if(draining_.begin(), draining_.end(),
                     [&](const std::shared_ptr<Worker>& known) { return known.get() == &worker; });
    if (old == draining_.end()) return;
    bury(std::move(*old));
    draining_.erase(old);
    return;
  }
  if (!opened_) {
    open_failure_ = reason;
    bury(std::exchange(slot->worker, nullptr));
    started_.set();
    return;
  }
  first_is_over(*slot);
  log_warning("[{}] The process is gone: {}. {} of its episodes or requests were open.", worker.name(),
              reason, worker.load);
  slot->failures = worker.has_served() ? 1 : slot->failures + 1;
  bury(std::exchange(slot->worker, nullptr));
  if (!given_up_.empty()) return;
  ++replaced_;
  if (++replaced_in_a_row_ > options_->restarts) return give_up(reason);
  if (slot->apart) return serve();
  start_later(*slot);
}

void WorkerPool::start_later(Slot& slot) {
  slot.starts = true;
  slot.timer =
      executor_->post_at(executor_->now() + pause_after(slot.failures), [this, &slot] { start(slot); });
}

// One process more for each claim that waits, but for those that are being started.
void WorkerPool::start_apart() {
  if (claims_apart_.empty()) return;
  size_t starting = 0;
  for (const Slot& slot : slots_)
    starting += slot.apart && (slot.starts || (slot.worker && !slot.worker->ready()));
  for (Slot& slot : slots_) {
    if (starting >= claims_apart_.size()) return;
    if (!slot.apart || slot.starts || slot.worker) continue;
    start_later(slot);
    ++starting;
  }
}

void WorkerPool::end_when_idle(Slot& slot) {
  slot.timer = executor_->post_at(executor_->now() + kApartLinger, [this, &slot] {
    if (!slot.worker || slot.worker->load > 0) return;
    draining_.push_back(slot.worker);
    slot.worker->finish();
    slot.worker = nullptr;
  });
}

// It is in the middle of a call.
void WorkerPool::bury(std::shared_ptr<Worker> worker) {
  executor_->post([worker = std::move(worker)] {});
}

void WorkerPool::give_up(const std::string& reason) {
  given_up_ = fmt::format(
      "The processes of {} had to be replaced more than {} times in a row and are given up; the last one: "
      "{}. Mend the program, or raise {}.restarts.",
      section_, options_->restarts, reason, section_);
  log_error("{}", given_up_);
  for (Claim* claim : claims_) claim->granted.set();
  for (Claim* claim : claims_apart_) claim->granted.set();
  claims_.clear();
  claims_apart_.clear();
}

void WorkerPool::refuse() const { throw resource_error(given_up_); }

int WorkerPool::lost_by(const std::string& owner) const {
  const auto found = lost_.find(owner);
  return found == lost_.end() ? 0 : found->second;
}

// How many owners that have lost so many processes one process serves at a time.
int WorkerPool::most_beside(int lost, const Greeting& greeting) const {
  const int most =
      greeting.episodes > 0
          ? static_cast<int>(std::min<int64_t>(greeting.episodes, options_->episodes_per_process))
          : options_->episodes_per_process;
  if (lost == 0) return most;
  return lost == 1 ? static_cast<int>(std::sqrt(most)) : 1;
}

std::shared_ptr<Worker> WorkerPool::pick(int lost) {
  std::shared_ptr<Worker> best;
  for (const Slot& slot : slots_) {
    const std::shared_ptr<Worker>& worker = slot.worker;
    if (slot.apart != (lost > 0) || !worker || !worker->ready()) continue;
    const int most = most_beside(lost, worker->greeting());
    if (worker->load > 0 && (worker->load >= most || worker->most_load != most)) continue;
    if (!best || worker->load < best->load) best = worker;
  }
  if (!best) return nullptr;
  ++best->load;
  best->most_load = most_beside(lost, best->greeting());
  return best;
}

void WorkerPool::serve() {
  while (!claims_.empty()) {
    std::shared_ptr<Worker> worker = pick(0);
    if (!worker) break;
    Claim* claim = claims_.front();
    claims_.pop_front();
    claim->worker = std::move(worker);
    claim->granted.set();
  }
  // None passes one that must wait until a process is empty: that would never be.
  while (!claims_apart_.empty()) {
    Claim* claim = claims_apart_.front();
    claim->worker = pick(claim->lost);
    if (!claim->worker) break;
    claims_apart_.pop_front();
    claim->granted.set();
  }
  start_apart();
}

void WorkerPool::give_back(Worker& worker, const std::string& owner, bool used) {
  --worker.load;
  if (used && !worker.gone() && !worker.has_unanswered()) replaced_in_a_row_ = 0;
  if (used && !owner.empty() && worker.gone()) add_loss(owner);
  if (used && !owner.empty() && !worker.gone()) forget(owner);
  if (worker.load == 0) {
    Slot* slot = slot_of(worker);
    if (slot == nullptr) worker.finish();
    if (slot != nullptr && slot->apart && !worker.gone()) end_when_idle(*slot);
  }
  serve();
}

Task<WorkerLease> WorkerPool::lease(std::string owner) {
  const int lost = lost_by(owner);
  return lease(std::move(owner), lost);
}

Task<WorkerLease> WorkerPool::lease(std::string owner, int lost) {
  const std::shared_ptr<WorkerPool> self = shared_from_this();
  if (!given_up_.empty()) refuse();
  if (executor_ == nullptr) throw internal_error(section_ + " is used before it was opened.");
  // Who is always alone needs no process apart.
  if (most_beside(0, greeting_) == 1) lost = 0;
  std::list<Claim*>& claims = lost > 0 ? claims_apart_ : claims_;
  if (claims.empty()) {
    if (std::shared_ptr<Worker> worker = pick(lost)) {
      co_return WorkerLease(self, std::move(worker), std::move(owner));
    }
  }
  Claim claim{.lost = lost};
  claims.push_back(&claim);
  const Withdraw withdraw(*this, claim);
  if (lost > 0) start_apart();
  co_await claim.granted.wait();
  if (!claim.worker) refuse();
  co_return WorkerLease(self, std::exchange(claim.worker, nullptr), std::move(owner));
}

Task<Result<Json>> WorkerPool::ask(std::string method, Json params, int lost) {
  const WorkerLease place = co_await lease({}, lost);
  co_return co_await place.worker().ask(std::move(method), std::move(params));
}

Task<std::vector<std::string>> WorkerPool::check_at_rest() {
  std::vector<std::string> problems;
  std::vector<std::shared_ptr<Worker>> workers;
  for (const Slot& slot : slots_) {
    if (slot.worker && slot.worker->ready()) workers.push_back(slot.worker);
  }
  for (const std::shared_ptr<Worker>& worker : workers) {
    const Result<Json> answer = co_await worker->ask("ping", Json::object());
    if (!answer) continue;
    const PingAnswer ping = decode_ping(*answer);
    if (ping.episodes > 0) {
      problems.push_back(fmt::format(
          "{} still has {} episodes open after every close; free what the episode holds in close.",
          worker->name(), ping.episodes));
    }
    if (ping.stuck > 0) {
      problems.push_back(
          fmt::format("{} has {} requests that were given up and still hold a thread; give what they wait "
                      "for a time limit.",
                      worker->name(), ping.stuck));
    }
  }
  if (replaced_ > 0) {
    problems.push_back(fmt::format(
        "{}: {} processes ended and were replaced; their last words are in the log.", section_, replaced_));
  }
  co_return problems;
}

std::string WorkerPool::next_episode() { return fmt::format("e{}", episodes_++); }

std::vector<int> WorkerPool::process_ids() const {
  std::vector<int> ids;
  for (const Slot& slot : slots_) {
    if (slot.worker && !slot.worker->gone()) ids.push_back(slot.worker->process_id());
  }
  return ids;
}

}  // namespace stoker
