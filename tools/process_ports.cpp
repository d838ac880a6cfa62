// The only place of the program that asks the system for time and for randomness.
#include "tools/process_ports.h"

#include <chrono>
#include <random>

namespace shoal::tools {

Instant monotonic_now() {
  return std::chrono::time_point_cast<Nanos>(std::chrono::steady_clock::now());
}

std::int64_t unix_seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::int64_t unix_millis_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

void Pause::until(Instant when) {
  std::unique_lock lock(mutex_);
  ended_.wait_until(lock, when, [this] { return over_; });
}

void Pause::end() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
}

}  // namespace shoal::tools
