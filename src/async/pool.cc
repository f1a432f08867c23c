#include "async/pool.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "async/executor.h"
#include "base/error.h"

namespace stoker {

struct Pool::Shared {
  mutable std::mutex mutex;
  std::condition_variable work_arrived;
  std::condition_variable job_done;  // for blocked callers
  std::deque<std::shared_ptr<PoolJob>> queue;
  std::map<int, std::thread> workers;  // without the lost ones
  int next_worker = 0;
  int idle = 0;
  int lost = 0;
  bool closing = false;
  bool start_failed = false;  // no thread could take the place of a lost one
};

// The suspension of Pool::run. Hears of the cancellation itself, since what follows depends on where the job
// is.
class PoolWait final : public Waiter, private Timer {
 public:
  PoolWait(Pool& pool, std::shared_ptr<PoolJob> job, CancellationToken token)
      : pool_(pool), job_(std::move(job)), token_(std::move(token)) {}
  ~PoolWait() override {
    if (job_->wait_ == nullptr) return;
    job_->wait_ = nullptr;
    // Nobody will hear of the end: a function that may be abandoned must not hold up the pool's own end.
    if (!pool_.withdraw(*job_) && pool_.options_.abandon_after) pool_.abandon(*job_);
  }

  void done() {
    job_->wait_ = nullptr;
    wake();
  }

  bool await_ready() const {
    token_.throw_if_requested();
    return false;
  }
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    begin(handle, pool_.site_, Shield::kShielded);
    job_->wait_ = this;
    job_->executor_ = context().executor;
    pool_.submit(job_);
    cancellation_.emplace(token_, [this](CancelReason) { on_request(); });
    return true;
  }
  void await_resume() {
    cancellation_.reset();
    disarm();
    finish();
    if (job_done_) return;
    if (over_limit_) {
      throw resource_error(
          "Pool '" + pool_.options_.name + "' has lost " + std::to_string(pool_.lost_threads()) +
          " threads to calls that do not return; run such calls in a process with a time limit.");
    }
    throw Cancelled(token_.reason());
  }

 private:
  void on_request() {
    if (pool_.withdraw(*job_)) {
      give_up();
    } else if (pool_.options_.abandon_after && !armed()) {
      context().executor->arm(*this, context().executor->now() + *pool_.options_.abandon_after);
    }
  }
  void fire() override {
    if (!pool_.abandon(*job_)) return;  // done; its delivery is on the way
    over_limit_ = pool_.lost_threads() > pool_.options_.lost_limit || pool_.start_failed();
    give_up();
  }
  void give_up() {
    job_done_ = false;
    done();
  }

  Pool& pool_;
  std::shared_ptr<PoolJob> job_;
  CancellationToken token_;
  std::optional<CancellationCallback> cancellation_;
  bool job_done_ = true;
  bool over_limit_ = false;
};

Pool::Pool(PoolOptions options)
    : options_(std::move(options)),
      shared_(std::make_shared<Shared>()),
      virtual_threads_(std::max(options_.threads, 1), options_.name),
      site_{"Pool.run", options_.name} {
  options_.threads = std::max(options_.threads, 1);
}

Pool::~Pool() {
  std::map<int, std::thread> workers;
  {
    std::lock_guard lock(shared_->mutex);
    shared_->closing = true;
    shared_->queue.clear();
    workers.swap(shared_->workers);
  }
  shared_->work_arrived.notify_all();
  for (auto& [id, worker] : workers) worker.join();
}

int Pool::lost_threads() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->lost;
}

bool Pool::start_failed() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->start_failed;
}

size_t Pool::queued() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->queue.size();
}

Task<> Pool::wait_for(std::shared_ptr<PoolJob> job) {
  co_await PoolWait(*this, std::move(job), co_await current_cancellation());
}

void Pool::block_on(const std::shared_ptr<PoolJob>& job) {
  submit(job);
  std::unique_lock lock(shared_->mutex);
  shared_->job_done.wait(lock, [&] { return job->state_ == PoolJob::State::kDone; });
}

void Pool::submit(std::shared_ptr<PoolJob> job) {
  std::lock_guard lock(shared_->mutex);
  shared_->queue.push_back(std::move(job));
  const size_t waiting = shared_->queue.size();
  if (static_cast<size_t>(shared_->idle) < waiting &&
      shared_->workers.size() < static_cast<size_t>(options_.threads)) {
    add_worker();
  } else {
    shared_->work_arrived.notify_one();
  }
}

void Pool::add_worker() {
  const int worker = shared_->next_worker++;
  shared_->workers.emplace(worker, std::thread(&Pool::work, shared_, worker));
}

bool Pool::withdraw(PoolJob& job) {
  std::lock_guard lock(shared_->mutex);
  if (job.state_ != PoolJob::State::kQueued) return false;
  std::erase_if(shared_->queue, [&](const std::shared_ptr<PoolJob>& queued) { return queued.get() == &job; });
  return true;
}

bool Pool::abandon(PoolJob& job) {
  std::lock_guard lock(shared_->mutex);
  if (job.state_ != PoolJob::State::kRunning) return false;
  job.state_ = PoolJob::State::kAbandoned;
  ++shared_->lost;
  auto worker = shared_->workers.find(job.worker_);
  worker->second.detach();
  shared_->workers.erase(worker);
  if (!shared_->queue.empty()) {
    try {
      add_worker();
    } catch (const std::exception&) {  // called from a timer: the waiting task is told instead
      shared_->start_failed = true;
    }
  }
  return true;
}

void Pool::work(const std::shared_ptr<Shared>& shared, int worker) {
  std::unique_lock lock(shared->mutex);
  while (true) {
    ++shared->idle;
    shared->work_arrived.wait(lock, [&] { return shared->closing || !shared->queue.empty(); });
    --shared->idle;
    if (shared->queue.empty()) return;
    std::shared_ptr<PoolJob> job = std::move(shared->queue.front());
    shared->queue.pop_front();
    job->state_ = PoolJob::State::kRunning;
    job->worker_ = worker;
    lock.unlock();
    job->execute();
    lock.lock();
    if (job->state_ == PoolJob::State::kAbandoned) return;
    job->state_ = PoolJob::State::kDone;
    if (job->executor_ == nullptr) {
      shared->job_done.notify_all();
      continue;
    }
    lock.unlock();
    Executor& executor = *job->executor_;
    // The work carries the last reference, so that the function is destroyed on the loop thread.
    executor.post([job = std::move(job)] {
      if (job->wait_ != nullptr) job->wait_->done();
    });
    lock.lock();
  }
}

}  // namespace stoker
