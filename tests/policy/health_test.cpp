// Health by hand: 100 ms heartbeats, suspect after 3, dead after 10, a stall of 2 s.
#include "actors/policy/health.h"

#include <doctest/doctest.h>

using namespace shoal;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {
constexpr HealthLimits kLimits{
    .heartbeat = milliseconds(100), .suspect = 3, .dead = 10, .stall = seconds(2)};
constexpr Instant kStart{seconds(100)};

HealthVerdict verdict(const PartPulse& pulse, Nanos later) {
  return health_of(pulse, kLimits, kStart + later).verdict;
}

PartPulse idle() {
  return {.heard = true,
          .started = kStart,
          .last_heartbeat = kStart,
          .last_progress = kStart,
          .has_work = false};
}
}  // namespace

TEST_CASE("a part without heartbeats is starting, then dead") {
  const PartPulse pulse{.heard = false,
                        .started = kStart,
                        .last_heartbeat = {},
                        .last_progress = {},
                        .has_work = false};
  CHECK(verdict(pulse, milliseconds(999)) == HealthVerdict::kStarting);
  CHECK(verdict(pulse, milliseconds(1'000)) == HealthVerdict::kDead);
}

TEST_CASE("a silent part is suspected, then dead") {
  CHECK(verdict(idle(), milliseconds(299)) == HealthVerdict::kOk);
  CHECK(verdict(idle(), milliseconds(300)) == HealthVerdict::kDegraded);
  CHECK(verdict(idle(), milliseconds(1'000)) == HealthVerdict::kDead);
}

TEST_CASE("a part with work is busy while it makes progress and degraded when it does not") {
  PartPulse pulse = idle();
  pulse.has_work = true;
  CHECK(verdict(pulse, milliseconds(100)) == HealthVerdict::kBusy);
  pulse.last_heartbeat = kStart + seconds(2);
  CHECK(verdict(pulse, seconds(2)) == HealthVerdict::kDegraded);
  CHECK_FALSE(health_of(pulse, kLimits, kStart + seconds(2)).cause.empty());
  pulse.last_progress = kStart + seconds(1);
  CHECK(verdict(pulse, seconds(2)) == HealthVerdict::kBusy);
}

TEST_CASE("a part that tells its trouble is degraded in its own words, until it is over") {
  PartPulse pulse = idle();
  pulse.trouble = "the disk is full";
  CHECK(verdict(pulse, Nanos{0}) == HealthVerdict::kDegraded);
  CHECK(health_of(pulse, kLimits, kStart).cause == "the disk is full");
  CHECK(verdict(pulse, milliseconds(1'000)) == HealthVerdict::kDead);
  pulse.trouble.clear();
  CHECK(verdict(pulse, Nanos{0}) == HealthVerdict::kOk);
}
