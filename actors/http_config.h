// What the operator may set about the HTTP side: where it listens, who may call, and every ceiling
// with its default.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/kv_record.h"
#include "schemas/units.h"

namespace shoal {

// Every wait and every buffer of a client has a ceiling here; each one is answered, never left
// hanging.
struct HttpLimits {
  std::size_t header_bytes = 16 * 1024;       // request line and fields; beyond: 431
  std::size_t body_bytes = 48 * 1024 * 1024;  // beyond: 413
  std::size_t connections = 10'000;           // all shards together; beyond: 503
  std::size_t choices_in_flight = 4'096;      // answers being made, n per request; beyond: 429
  std::size_t choices_per_key = 4'096;        // the same for one key; beyond: 429
  std::size_t pending_bytes =
      256 * 1024;  // of a stream its client does not read; beyond: cancelled
  std::size_t pipelined_bytes =
      64 * 1024;  // kept while an answer is in progress; beyond: not read until it ends
  std::size_t inline_body_bytes =
      64 * 1024;                   // a larger body is parsed and tokenised on the worker thread
  std::size_t queued_bodies = 64;  // waiting for that thread; beyond: 503
  std::size_t all_bodies_bytes = std::size_t{1}
                                 << 30;  // being read or waiting, of all connections; beyond: 503
  Nanos header_timeout = std::chrono::seconds(10);  // first byte to end of head; then 408
  Nanos body_timeout =
      std::chrono::seconds(60);              // plus the time the bytes so far may take; then 408
  std::size_t body_bytes_per_s = 16 * 1024;  // slowest body that is waited for beyond body_timeout
  Nanos idle_timeout = std::chrono::seconds(75);  // between requests; then closed without a word
  Nanos write_stall_timeout =
      std::chrono::seconds(30);  // no byte taken by the client; then cancelled
  Nanos linger_timeout =
      std::chrono::seconds(5);  // for an early answer to reach a client that still sends
  // Deadline of a request that names none, and the longest that one may name: `timeout` in the body
  // or x-request-timeout; beyond: 400.
  Nanos request_timeout = std::chrono::minutes(10);
  std::size_t explained_answers = 1'024;  // whose ids are known afterwards, the newest ones
  Nanos retry_after =
      std::chrono::seconds(1);  // told to refused clients when the node names no time
};

struct ApiKey {
  std::string key;
  std::string tenant;  // whose limits and cached prefixes the key uses
  // Of its blocks, unless a request names one; empty: by the request. Alike for all keys of a
  // tenant.
  std::optional<TtlClass> ttl{};
};

struct HttpConfig {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;     // 0 = any free one
  std::uint32_t shards = 1;      // I/O threads
  std::vector<ApiKey> keys;      // empty = open, which only a loopback address may be
  bool is_for_monitors = false;  // pages without keys only: no model is served
  HttpLimits limits;
  Nanos keep_alive_comment =
      std::chrono::seconds(10);                 // between SSE comments while nothing else is sent
  Nanos tick = std::chrono::milliseconds(250);  // how finely the limits above are measured
};

}  // namespace shoal
