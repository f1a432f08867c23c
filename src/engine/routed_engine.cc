#include "engine/routed_engine.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/core.h>

#include "async/cancellation.h"
#include "async/sleep.h"
#include "async/timeout.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/replica_progress.h"
#include "engine/request_check.h"
#include "engine/weights_file.h"

namespace stoker {
namespace {

constexpr int kMostRounds = 8;          // of one publication
constexpr int kMostFruitlessTries = 8;  // of one request, without a token between two losses

Failure shut_down() { return {FailureClass::kInfrastructure, "shut_down", "The engines were shut down."}; }

// The first replacement comes at once, later ones after 1, 2, 4 ... 30 s.
Duration pause_before_try(int failures) {
  if (failures < 2) return {};
  return std::chrono::seconds(std::min(30, 1 << std::min(failures - 2, 10)));
}

void add(EngineStatistics& sum, const EngineStatistics& part) {
  sum.waiting_requests += part.waiting_requests;
  sum.running_requests += part.running_requests;
  sum.sampled_tokens += part.sampled_tokens;
  sum.prefill_tokens += part.prefill_tokens;
  sum.cached_tokens += part.cached_tokens;
  sum.decode_steps += part.decode_steps;
  sum.preemptions += part.preemptions;
  sum.cache_blocks_used += part.cache_blocks_used;
  sum.cache_blocks_total += part.cache_blocks_total;
  sum.busy_seconds += part.busy_seconds;
}

// A step of a replica with its limit; empty when that has passed. What it throws of the expected kind, such
// as a file that a child cannot read, is a failure of that replica.
template <typename T>
Task<std::optional<Result<T>>> within(Duration limit, Task<Result<T>> step) {
  try {
    co_return co_await with_timeout(limit, std::move(step));
  } catch (const Cancelled&) {
    throw;
  } catch (const std::exception& error) {
    co_return Result<T>(Failure{FailureClass::kInfrastructure, "engine", error.what()});
  }
}

}  // namespace

struct RoutedEngine::Slot {
  int index = 0;
  std::unique_ptr<ReplicaMaker> maker;
  std::shared_ptr<ReplicaEngine> engine;  // null: to be made
  bool serving = false;                   // takes requests
  bool given_up = false;
  bool computes_here = true;
  bool takes_masks = true;
  int64_t requests = 0;  // in flight, of all its engines
  int failures = 0;      // in a row
  Event wake{"the end of a replica"};
  EngineStatistics past;  // counters of the engines before
};

// A request's place at a replica, whose engine lives as long.
class RoutedEngine::Visit {
 public:
  explicit Visit(Slot& slot) : slot_(slot), engine_(slot.engine) { ++slot_.requests; }
  ~Visit() { --slot_.requests; }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  ReplicaEngine& engine() const { return *engine_; }
  void succeeded() {
    if (slot_.engine == engine_) slot_.failures = 0;
  }

 private:
  Slot& slot_;
  std::shared_ptr<ReplicaEngine> engine_;
};

// One publication on its way.
struct RoutedEngine::Round {
  struct Member {
    Slot* slot = nullptr;
    std::shared_ptr<ReplicaEngine> engine;
  };
  WeightsPtr weights;
  std::vector<Member> members;
  std::optional<Publication> state;
  std::optional<Failure> refusal;  // the first
  TimePoint start{};
};

RoutedEngine::RoutedEngine(Executor& executor, std::vector<std::unique_ptr<ReplicaMaker>> makers,
                           RoutedEngineOptions options)
    : executor_(executor), options_(std::move(options)), scope_(executor) {
  if (makers.empty()) throw internal_error("A routed engine was made without replicas.");
  for (std::unique_ptr<ReplicaMaker>& maker : makers) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->index = static_cast<int>(slots_.size()) - 1;
    slots_.back()->maker = std::move(maker);
  }
}

RoutedEngine::~RoutedEngine() = default;

Task<> RoutedEngine::open(WeightsPtr weights) {
  target_ = std::move(weights);
  version_ = target_->version();
  Scope opening(executor_, co_await current_cancellation());
  for (const std::unique_ptr<Slot>& slot : slots_) opening.spawn(open_slot(*slot), "open");
  co_await opening.join();
  capabilities_ = slots_.front()->engine->capabilities();
  for (const std::unique_ptr<Slot>& slot : slots_) {
    const EngineCapabilities has = slot->engine->capabilities();
    capabilities_.keyed_random_streams &= has.keyed_random_streams;
    capabilities_.per_token_versions &= has.per_token_versions;
    capabilities_.scoring &= has.scoring;
    capabilities_.prefix_cache &= has.prefix_cache;
    capabilities_.exact_log_probabilities &= has.exact_log_probabilities;
    slot->serving = !slot->engine->lost();
    scope_.spawn(keep(*slot), slot->maker->name());
  }
}

Task<> RoutedEngine::open_slot(Slot& slot) {
  auto made = co_await within(options_.start_limit, slot.maker->make(target_));
  if (!made) {
    throw resource_error(fmt::format("The {} did not serve within {:.0f} s.", slot.maker->name(),
                                     to_seconds(options_.start_limit)));
  }
  if (!*made) throw resource_error(made->failure().message);
  take_in(slot, **std::move(made));
}

void RoutedEngine::take_in(Slot& slot, std::shared_ptr<ReplicaEngine> engine) {
  slot.engine = std::move(engine);
  slot.computes_here = slot.engine->computes_here();
  slot.takes_masks = slot.engine->takes_masks();
  slot.engine->when_lost([this, &slot] { set_aside(slot); });
}

void RoutedEngine::set_aside(Slot& slot) {
  slot.serving = false;
  slot.wake.set();
}

// A keeper that ended would leave requests waiting for its replica for ever: they are told why.
Task<> RoutedEngine::keep(Slot& slot) {
  try {
    co_await live(slot);
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    slot.serving = false;
    if (!broken_) broken_ = std::current_exception();
    changed_.set();
  }
}

// The life of a replica: made, brought to the version that is to be served, serving; lost, and made again.
Task<> RoutedEngine::live(Slot& slot) {
  while (!slot.given_up) {
    if (slot.engine == nullptr) {
      co_await replace(slot);
    } else if (slot.engine->lost()) {
      co_await let_go(slot);
    } else if (slot.engine->version() < target_->version()) {
      co_await bring_up(slot);
    } else {
      slot.serving = true;
      changed_.set();
      slot.wake.reset();
      co_await slot.wake.wait();
    }
  }
}

void RoutedEngine::failed(Slot& slot, const std::string& reason) {
  ++counted_.lost_engines;
  ++slot.failures;
  slot.given_up = slot.failures >= options_.most_losses;
  if (slot.given_up) {
    log_error("The {} was lost {} times in a row and is given up: {}", slot.maker->name(), slot.failures,
              reason);
    changed_.set();
  } else {
    log_warning("The {} is replaced: {}", slot.maker->name(), reason);
  }
  if (options_.on_loss) options_.on_loss(slot.maker->name(), reason);
}

Task<> RoutedEngine::let_go(Slot& slot) {
  const std::shared_ptr<ReplicaEngine> engine = std::exchange(slot.engine, nullptr);
  routes_.forget(slot.index);
  EngineStatistics counters = engine->statistics();
  counters.waiting_requests = counters.running_requests = 0;
  counters.cache_blocks_used = counters.cache_blocks_total = 0;
  add(slot.past, counters);
  co_await shielded(engine->close());
  failed(slot, engine->lost_reason());
}

Task<> RoutedEngine::replace(Slot& slot) {
  if (const Duration pause = pause_before_try(slot.failures); pause > Duration::zero()) {
    co_await sleep_for(pause);
  }
  auto made = co_await within(options_.start_limit, slot.maker->make(target_));
  if (made && *made) {
    take_in(slot, **std::move(made));
  } else {
    failed(slot, made ? made->failure().message
                      : fmt::format("It did not serve within {:.0f} s.", to_seconds(options_.start_limit)));
  }
}

// One that missed a publication. What it refuses ends it.
Task<> RoutedEngine::bring_up(Slot& slot) {
  const WeightsPtr weights = target_;
  const std::shared_ptr<ReplicaEngine> engine = slot.engine;
  const auto prepared = co_await within(options_.prepare_limit, engine->prepare(weights));
  bool caught_up = prepared && *prepared;
  if (caught_up) {
    const auto committed = co_await within(options_.commit_limit, engine->commit(weights->version()));
    caught_up = committed && *committed;
  }
  if (!caught_up) engine->abandon(fmt::format("it could not be brought to version {}", weights->version()));
}

RoutedEngine::Slot* RoutedEngine::choose(const StreamKey& stream, bool masked) {
  std::vector<ReplicaLoad> loads;
  for (const std::unique_ptr<Slot>& slot : slots_) {
    const bool can = slot->serving && !slot->engine->lost() && (!masked || slot->takes_masks);
    loads.push_back({can, slot->requests});
  }
  const int chosen = routes_.choose(stream, loads);
  return chosen < 0 ? nullptr : slots_[static_cast<size_t>(chosen)].get();
}

bool RoutedEngine::some_may_take_masks() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const auto& slot) { return slot->takes_masks && !slot->given_up; });
}

// Asked again for every part of a request: meanwhile replicas are given up, and the last that takes masks may
// be one of them.
Task<Result<RoutedEngine::Slot*>> RoutedEngine::slot_for(const GenerateRequest& request) {
  const bool masked = request.mask != nullptr;
  for (;;) {
    co_await someone_serves();
    if (closing_) co_return shut_down();
    if (masked && !some_may_take_masks()) {
      co_return Failure{FailureClass::kInfrastructure, "unsupported",
                        "A request with a token mask needs an engine in this process; set engine.replicas to "
                        "more than engine.child_processes."};
    }
    if (Slot* slot = choose(request.stream, masked)) co_return slot;
    // One serves, and none of those that could serve this request: the next change may bring one.
    changed_.reset();
    co_await changed_.wait();
  }
}

// Waits until a replica takes requests, or until close(). Throws when none ever will.
Task<> RoutedEngine::someone_serves() {
  for (;;) {
    if (broken_) std::rethrow_exception(broken_);
    bool serves = closing_, hopeless = true;
    for (const std::unique_ptr<Slot>& slot : slots_) {
      serves = serves || slot->serving;
      hopeless = hopeless && slot->given_up;
    }
    if (serves) co_return;
    if (hopeless) {
      throw resource_error(
          "Every engine was lost too often in a row and given up; the log above says of each why.");
    }
    changed_.reset();
    co_await changed_.wait();
  }
}

Task<Result<Completion>> RoutedEngine::generate(GenerateRequest request, TokenSink& sink) {
  if (std::optional<Failure> failure = check_request(request)) co_return *std::move(failure);
  ReplicaProgress progress(std::move(request), sink, options_.tokenizer.get());
  int fruitless = 0;
  for (;;) {
    const Result<Slot*> slot = co_await slot_for(progress.request());
    if (!slot) co_return slot.failure();
    const size_t before = progress.accepted();
    Visit visit(**slot);
    Result<Completion> result = co_await visit.engine().generate(progress.rest(), progress);
    if (result) {
      visit.succeeded();
      co_return progress.whole(*std::move(result));
    }
    if (closing_) co_return shut_down();
    // What was complete needs no other engine: only the word of it was lost.
    if (const std::optional<Completion> complete = progress.complete(result.failure())) co_return *complete;
    if (!visit.engine().lost()) co_return result.failure();
    fruitless = progress.accepted() > before ? 0 : fruitless + 1;
    if (fruitless == kMostFruitlessTries) co_return result.failure();
    ++counted_.failed_over_requests;
  }
}

Task<Result<std::vector<float>>> RoutedEngine::score(std::vector<int32_t> tokens, float temperature) {
  for (int tries = 1;; ++tries) {
    co_await someone_serves();
    Slot* slot = choose({}, false);
    if (slot == nullptr) co_return shut_down();
    const Visit visit(*slot);
    Result<std::vector<float>> scores = co_await visit.engine().score(tokens, temperature);
    if (scores || closing_ || !visit.engine().lost() || tries == kMostFruitlessTries) co_return scores;
  }
}

EngineStatistics RoutedEngine::statistics() const {
  EngineStatistics sum = counted_;
  int elsewhere = 0;
  for (const std::unique_ptr<Slot>& slot : slots_) {
    add(sum, slot->past);
    if (slot->engine) add(sum, slot->engine->statistics());
    if (!slot->computes_here) ++elsewhere;
  }
  const bool here = elsewhere < static_cast<int>(slots_.size());
  sum.busy_seconds /= elsewhere + (here ? 1 : 0);
  return sum;
}

std::vector<RoutedEngine::ReplicaState> RoutedEngine::replicas() const {
  std::vector<ReplicaState> states;
  for (const std::unique_ptr<Slot>& slot : slots_) {
    states.push_back(
        {slot->maker->name(), slot->serving, slot->engine ? slot->engine->version() : -1, slot->requests});
  }
  return states;
}

Task<> RoutedEngine::close() {
  if (std::exchange(closing_, true)) co_return;
  changed_.set();
  scope_.cancel(CancelReason::kShutdown);
  co_await shielded(scope_.join());
  for (const std::unique_ptr<Slot>& slot : slots_) {
    slot->serving = false;
    if (slot->engine) co_await shielded(slot->engine->close());
  }
}

// --- Publication -------------------------------------------------------------------------------------------

Task<Result<Done>> RoutedEngine::publish(WeightsPtr weights) {
  const Permit turn = co_await publishing_.acquire();
  if (weights->version() < target_->version()) {
    co_return stale_version(weights->version(), target_->version());
  }
  for (int i = 0; i < kMostRounds; ++i) {
    co_await someone_serves();
    if (closing_) co_return shut_down();
    Round round;
    round.weights = weights;
    const PublicationOutcome outcome = co_await shielded(publish_round(round));
    if (outcome != PublicationOutcome::kAborted) {
      co_await someone_serves();
      version_ = weights->version();
      if (closing_) co_return shut_down();
      co_return Done{};
    }
    if (round.refusal && round.refusal->reason == WeightsFiles::kRefused) {
      throw resource_error(fmt::format("Version {} cannot be given to the engines in other processes: {}",
                                       weights->version(), round.refusal->message));
    }
    if (round.refusal) co_return *round.refusal;
  }
  throw resource_error(
      fmt::format("Version {} could not be prepared on any engine in {} tries; the log says why.",
                  weights->version(), kMostRounds));
}

Task<PublicationOutcome> RoutedEngine::publish_round(Round& round) {
  round.start = executor_.now();
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->serving) round.members.push_back({slot.get(), slot->engine});
  }
  const int count = static_cast<int>(round.members.size());
  round.state.emplace(round.weights->version(), count);
  Scope members(executor_);
  for (int i = 0; i < count; ++i) members.spawn(prepare_member(round, i), "prepare");
  co_await members.join();
  if (round.state->start_commit()) {
    target_ = round.weights;  // from here on every replica is brought to it
    for (int i = 0; i < count; ++i) {
      if (round.state->phase(i) == ReplicaPhase::kCommitting) {
        members.spawn(commit_member(round, i), "commit");
      } else if (round.members[static_cast<size_t>(i)].slot->engine ==
                 round.members[static_cast<size_t>(i)].engine) {
        set_aside(*round.members[static_cast<size_t>(i)].slot);
      }
    }
    co_await members.join();
  }
  finish_round(round);
  co_return round.state->outcome();
}

Task<> RoutedEngine::prepare_member(Round& round, int member) {
  ReplicaEngine& engine = *round.members[static_cast<size_t>(member)].engine;
  const auto answer = co_await within(options_.prepare_limit, engine.prepare(round.weights));
  if (answer && *answer && !engine.lost()) {
    round.state->prepared(member);
    co_return;
  }
  round.state->not_prepared(member);
  if (!answer) {
    engine.abandon(fmt::format("it was not ready for version {} within {:.0f} s", round.weights->version(),
                               to_seconds(options_.prepare_limit)));
  } else if (!engine.lost() && !round.refusal) {
    round.refusal = answer->failure();
  }
}

Task<> RoutedEngine::commit_member(Round& round, int member) {
  ReplicaEngine& engine = *round.members[static_cast<size_t>(member)].engine;
  const auto answer = co_await within(options_.commit_limit, engine.commit(round.weights->version()));
  if (answer && *answer) {
    round.state->committed(member);
  } else if (answer && !engine.lost()) {
    round.state->not_committed(member);
  } else {
    round.state->in_doubt(member);
    engine.abandon(fmt::format("it did not say within {:.0f} s whether it serves version {}",
                               to_seconds(options_.commit_limit), round.weights->version()));
  }
}

// Whoever does not hold what is to be served, latecomers included, takes no requests until it does.
void RoutedEngine::finish_round(Round& round) {
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->serving && slot->engine->version() < target_->version()) set_aside(*slot);
  }
  const PublicationOutcome outcome = round.state->outcome();
  switch (outcome) {
    case PublicationOutcome::kCommitted:
      ++counted_.publications_committed;
      break;
    case PublicationOutcome::kAborted:
      ++counted_.publications_aborted;
      break;
    case PublicationOutcome::kPartlyCommitted:
      ++counted_.publications_partly_committed;
      break;
    case PublicationOutcome::kUnknown:
      ++counted_.publications_unknown;
      break;
  }
  if (outcome != PublicationOutcome::kCommitted) {
    log_warning("The publication of version {} to {} engines ended as {}.", round.weights->version(),
                round.members.size(), to_string(outcome));
  }
  if (!options_.on_publication) return;
  options_.on_publication({.version = round.weights->version(),
                           .outcome = outcome,
                           .replicas = static_cast<int>(round.members.size()),
                           .duration = executor_.now() - round.start});
}

}  // namespace stoker
