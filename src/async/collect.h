#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "async/cancellation_token.h"
#include "async/scope.h"
#include "async/task.h"
#include "async/waiter.h"

namespace stoker {
namespace detail {

template <typename T>
struct Collection {
  std::vector<Task<T>> tasks;
  std::vector<std::optional<T>> results;
  size_t next = 0;
  std::optional<CancelReason> cancelled;  // of the first task that was
};

template <typename T>
Task<> collect_some(Collection<T>* collection) {
  while (collection->next < collection->tasks.size()) {
    co_await check_cancellation();
    const size_t index = collection->next++;
    try {
      collection->results[index].emplace(co_await std::move(collection->tasks[index]));
    } catch (const Cancelled& cancelled) {
      if (!collection->cancelled) collection->cancelled = cancelled.reason();
      throw;
    }
  }
}

struct Nothing {};
inline Task<Nothing> give_nothing(Task<void> task) {
  co_await std::move(task);
  co_return Nothing{};
}

}  // namespace detail

// Runs the tasks side by side, at most `limit` (at least 1) at a time, started in order; gives their values
// in the order of the tasks. The first exception cancels the others and comes out after all have ended; tasks
// not started by then are destroyed. A task that was cancelled from elsewhere makes the whole throw
// Cancelled with the reason of the first.
//
//   std::vector<Task<Observation>> calls = ...;
//   std::vector<Observation> observations = co_await collect_all_windowed(std::move(calls), 8);
template <typename T>
Task<std::vector<T>> collect_all_windowed(std::vector<Task<T>> tasks, size_t limit) {
  detail::Collection<T> collection{.tasks = std::move(tasks)};
  collection.results.resize(collection.tasks.size());
  Scope scope(co_await current_executor(), co_await current_cancellation());
  const size_t workers = std::min(std::max<size_t>(limit, 1), collection.tasks.size());
  for (size_t worker = 0; worker < workers; ++worker)
    scope.spawn(detail::collect_some(&collection), "collect");
  co_await scope.join();
  std::vector<T> values;
  values.reserve(collection.results.size());
  for (std::optional<T>& result : collection.results) {
    if (!result) throw Cancelled(collection.cancelled.value_or(CancelReason::kRequested));
    values.push_back(std::move(*result));
  }
  co_return values;
}

// Runs all tasks side by side; see collect_all_windowed.
template <typename T>
Task<std::vector<T>> collect_all(std::vector<Task<T>> tasks) {
  const size_t count = tasks.size();
  return collect_all_windowed(std::move(tasks), count);
}

// The same for tasks without values.
inline Task<> collect_all_windowed(std::vector<Task<void>> tasks, size_t limit) {
  std::vector<Task<detail::Nothing>> wrapped;
  wrapped.reserve(tasks.size());
  for (Task<void>& task : tasks) wrapped.push_back(detail::give_nothing(std::move(task)));
  co_await collect_all_windowed(std::move(wrapped), limit);
}
inline Task<> collect_all(std::vector<Task<void>> tasks) {
  const size_t count = tasks.size();
  return collect_all_windowed(std::move(tasks), count);
}

}  // namespace stoker
