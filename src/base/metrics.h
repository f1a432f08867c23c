#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace stoker {

// Metrics: the light header by which any area counts what happens. The writers are in observe.
//
//   class Orchestrator {
//     Counter& retries_;  // = metrics.counter("episodes/retried")
//   };
//   retries_.add();

// Values of one step (or one evaluation) under the names that users search for; a value that is not finite is
// missing. Ordered, so that every writer lists them in the same order.
using MetricMap = std::map<std::string, double>;

// A number of events since the registry was made. Thread-safe.
class Counter {
 public:
  void add(int64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// A level: queue depth, episodes in flight. Thread-safe; keeps the highest level since the last take_peak.
class Gauge {
 public:
  void set(double value);
  void add(double amount);
  double value() const;
  // The highest level since the last call, and starts again from the current one.
  double take_peak();

 private:
  mutable std::mutex mutex_;
  double value_ = 0;
  double peak_ = 0;
};

// Owns the counters and gauges of one run. A name always gives the same object, whose address stays valid
// while the registry lives. A name that already stands for the other kind throws Error(kInternal).
// Thread-safe.
class MetricsRegistry {
 public:
  Counter& counter(std::string_view name);
  Gauge& gauge(std::string_view name);

  // Adds to `map`: each counter's increase since the last collect under its name, each gauge's level under
  // its name and its peak under NAME/peak.
  void collect(MetricMap& map);

 private:
  struct CounterEntry {
    Counter counter;
    int64_t collected = 0;
  };
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<CounterEntry>, std::less<>> counters_;
  std::map<std::string, std::unique_ptr<Gauge>, std::less<>> gauges_;
};

// Count, mean, extremes and spread of some numbers. Merging parts gives what adding all their numbers would:
// the maximum of maxima, the mean weighted by counts. Not finite numbers are counted apart and enter nothing
// else.
class Summary {
 public:
  void add(double value);
  void merge(const Summary& other);

  int64_t count() const { return count_; }
  int64_t not_finite() const { return not_finite_; }
  double sum() const { return sum_; }
  // Missing when there is no number; the standard deviation (divisor count - 1) also when there is only one.
  std::optional<double> mean() const;
  std::optional<double> minimum() const;
  std::optional<double> maximum() const;
  std::optional<double> deviation() const;

  // Writes NAME/mean, NAME/min, NAME/max and NAME/std; what is missing is left out.
  void put(MetricMap& map, const std::string& name) const;

 private:
  int64_t count_ = 0;
  int64_t not_finite_ = 0;
  double sum_ = 0;
  double mean_ = 0;
  double squares_ =
      0;  // sum of squared distances from the mean (Welford 1962; merged after Chan et al. 1979)
  double minimum_ = 0;
  double maximum_ = 0;
};

}  // namespace stoker
