#include "base/metrics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace stoker {

void Gauge::set(double value) {
  std::lock_guard lock(mutex_);
  value_ = value;
  peak_ = std::max(peak_, value_);
}

void Gauge::add(double amount) {
  std::lock_guard lock(mutex_);
  value_ += amount;
  peak_ = std::max(peak_, value_);
}

double Gauge::value() const {
  std::lock_guard lock(mutex_);
  return value_;
}

double Gauge::take_peak() {
  std::lock_guard lock(mutex_);
  return std::exchange(peak_, value_);
}

Counter& MetricsRegistry::counter(std::string_view name) {
  std::lock_guard lock(mutex_);
  auto found = counters_.find(name);
  if (found != counters_.end()) return found->second->counter;
  if (gauges_.contains(name))
    throw internal_error("The metric " + std::string(name) + " is a gauge, not a counter.");
  return counters_.emplace(name, std::make_unique<CounterEntry>()).first->second->counter;
}

Gauge& MetricsRegistry::gauge(std::string_view name) {
  std::lock_guard lock(mutex_);
  auto found = gauges_.find(name);
  if (found != gauges_.end()) return *found->second;
  if (counters_.contains(name))
    throw internal_error("The metric " + std::string(name) + " is a counter, not a gauge.");
  return *gauges_.emplace(name, std::make_unique<Gauge>()).first->second;
}

void MetricsRegistry::collect(MetricMap& map) {
  std::lock_guard lock(mutex_);
  for (auto& [name, entry] : counters_) {
    int64_t now = entry->counter.value();
    map[name] = static_cast<double>(now - std::exchange(entry->collected, now));
  }
  for (auto& [name, gauge] : gauges_) {
    map[name] = gauge->value();
    map[name + "/peak"] = gauge->take_peak();
  }
}

void Summary::add(double value) {
  if (!std::isfinite(value)) {
    ++not_finite_;
    return;
  }
  minimum_ = count_ == 0 ? value : std::min(minimum_, value);
  maximum_ = count_ == 0 ? value : std::max(maximum_, value);
  ++count_;
  sum_ += value;
  double distance = value - mean_;
  mean_ += distance / static_cast<double>(count_);
  squares_ += distance * (value - mean_);
}

void Summary::merge(const Summary& other) {
  not_finite_ += other.not_finite_;
  if (other.count_ == 0) return;
  if (count_ == 0) {
    int64_t not_finite = not_finite_;
    *this = other;
    not_finite_ = not_finite;
    return;
  }
  double ours = static_cast<double>(count_);
  double theirs = static_cast<double>(other.count_);
  double distance = other.mean_ - mean_;
  mean_ += distance * theirs / (ours + theirs);
  squares_ += other.squares_ + distance * distance * ours * theirs / (ours + theirs);
  count_ += other.count_;
  sum_ += other.sum_;
  minimum_ = std::min(minimum_, other.minimum_);
  maximum_ = std::max(maximum_, other.maximum_);
}

std::optional<double> Summary::mean() const {
  if (count_ == 0) return std::nullopt;
  return sum_ / static_cast<double>(count_);
}

std::optional<double> Summary::minimum() const {
  return count_ == 0 ? std::nullopt : std::optional(minimum_);
}

std::optional<double> Summary::maximum() const {
  return count_ == 0 ? std::nullopt : std::optional(maximum_);
}

std::optional<double> Summary::deviation() const {
  if (count_ < 2) return std::nullopt;
  return std::sqrt(std::max(0.0, squares_) / static_cast<double>(count_ - 1));
}

void Summary::put(MetricMap& map, const std::string& name) const {
  if (auto value = mean()) map[name + "/mean"] = *value;
  if (auto value = minimum()) map[name + "/min"] = *value;
  if (auto value = maximum()) map[name + "/max"] = *value;
  if (auto value = deviation()) map[name + "/std"] = *value;
}

}  // namespace stoker
