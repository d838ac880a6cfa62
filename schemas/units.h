// Units: durations and work in integer nanoseconds, sizes in bytes. Decisions are made in these,
// never in seconds as double.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace shoal {

// Predicted or measured work and elapsed time: one unit for every scheduler.
using Nanos = std::chrono::nanoseconds;
// Instant on the monotonic clock port.
using Instant = std::chrono::time_point<std::chrono::steady_clock, Nanos>;

struct Bytes {
  std::int64_t value = 0;

  constexpr Bytes() = default;

  constexpr explicit Bytes(std::int64_t v) : value(v) {}

  friend constexpr auto operator<=>(const Bytes&, const Bytes&) = default;

  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes{a.value + b.value}; }

  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes{a.value - b.value}; }

  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return Bytes{a.value * n}; }
};

// Tokens of one KV block (V4.1-Flash serving: 128; even, and a multiple of the 8-entry candidate
// blocks).
inline constexpr int kBlockTokens = 128;

}  // namespace shoal
