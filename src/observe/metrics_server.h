#pragma once

#include <cstdint>
#include <memory>

#include "base/metrics.h"

namespace stoker {

// Serves the last known metrics over HTTP to Prometheus, on this machine's loopback address and a thread of
// its own: http://127.0.0.1:PORT/metrics, in the text format 0.0.4. A metric "staleness/lag/mean" is the
// gauge stoker_staleness_lag_mean; beside the given ones there is stoker_step, the highest. What is not
// finite is left out.
//
//   MetricsServer server(9464);
//   server.update(3, metrics);
//
// Requests that are too large, too slow (5 seconds) or not HTTP lose their connection and nothing else.
class MetricsServer {
 public:
  // `port` 0: one that is free. Throws Error(kResource) when it cannot be had.
  explicit MetricsServer(uint16_t port);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  uint16_t port() const;

  // What is served from here on: `metrics` over what was given before. Never waits for who is asking.
  void update(int64_t step, const MetricMap& metrics);

 private:
  class Listener;
  std::unique_ptr<Listener> listener_;
};

}  // namespace stoker
