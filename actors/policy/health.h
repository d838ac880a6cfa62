// What is said about a part: from what it finished, not from being alive. A part that answers
// heartbeats with work and without progress is degraded; one that does not answer is suspected,
// then dead.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schemas/units.h"

namespace shoal {

struct HealthLimits {
  Nanos heartbeat{0};
  std::int64_t suspect = 3;  // heartbeats missed
  std::int64_t dead = 10;
  Nanos stall{0};  // work without progress
};

enum class HealthVerdict : std::uint8_t { kStarting, kOk, kBusy, kDegraded, kDead };

struct PartPulse {
  bool heard = false;  // at least one heartbeat came
  Instant started;
  Instant last_heartbeat;
  Instant
      last_progress;  // when its count of finished work last moved, or it last had nothing to do
  bool has_work = false;
  std::string trouble{};  // what it cannot do, in its own words; empty: nothing
};

struct Health {
  HealthVerdict verdict = HealthVerdict::kStarting;
  std::string_view cause;  // empty when there is nothing to say; lives as long as the pulse
};

Health health_of(const PartPulse& pulse, const HealthLimits& limits, Instant now);

}  // namespace shoal
