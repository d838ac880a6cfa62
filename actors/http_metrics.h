// What the HTTP side counts, shared by its shards, and how Prometheus reads it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "schemas/units.h"

namespace shoal {

using Counter = std::atomic<std::int64_t>;

// Cumulative buckets in seconds, vLLM's edges for the time to the first token.
class LatencyHistogram {
 public:
  void observe(Nanos elapsed);
  void append(std::string& out, std::string_view name, std::string_view labels) const;

 private:
  static constexpr std::array<double, 15> kEdges = {
      0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10};
  std::array<Counter, kEdges.size() + 1> counts_{};
  Counter total_ns_{0};
};

enum class ClientGone : std::uint8_t { kClosed, kStalled, kTooSlow, kShutdown };

struct HttpMetrics {
  // Gauges.
  Counter connections{0};
  Counter busy_connections{0};  // with an answer in the making or bytes to send
  Counter body_bytes{0};        // of bodies being read or waiting for the worker thread
  Counter choices_waiting{0};   // submitted, no token yet
  Counter choices_running{0};   // tokens arrive
  // Counters.
  std::array<Counter, 6> replies_by_class{};  // index = status / 100
  Counter finished_stop{0};
  Counter finished_length{0};
  Counter finished_error{0};
  std::array<Counter, 4> clients_gone{};  // answers cut, by ClientGone
  Counter prompt_tokens{0};
  Counter cached_tokens{0};
  Counter generation_tokens{0};
  Counter retries{0};
  Counter socket_writes{0};
  Counter bytes_sent{0};
  Counter bytes_received{0};
  LatencyHistogram first_token;
  LatencyHistogram between_tokens;
  LatencyHistogram whole_request;

  // Text exposition format; `model` labels vLLM's names.
  std::string text(std::string_view model) const;
};

}  // namespace shoal
