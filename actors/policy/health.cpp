// Silence first, then progress.
#include "actors/policy/health.h"

namespace shoal {

Health health_of(const PartPulse& pulse, const HealthLimits& limits, Instant now) {
  const Nanos silence = now - (pulse.heard ? pulse.last_heartbeat : pulse.started);
  if (silence >= limits.heartbeat * limits.dead) {
    return {HealthVerdict::kDead, "no heartbeat"};
  }
  if (!pulse.heard) {
    return {HealthVerdict::kStarting, "no heartbeat yet"};
  }
  if (silence >= limits.heartbeat * limits.suspect) {
    return {HealthVerdict::kDegraded, "heartbeats missed"};
  }
  if (pulse.has_work && now - pulse.last_progress >= limits.stall) {
    return {HealthVerdict::kDegraded, "work without progress"};
  }
  if (!pulse.trouble.empty()) {
    return {HealthVerdict::kDegraded, pulse.trouble};
  }
  return {pulse.has_work ? HealthVerdict::kBusy : HealthVerdict::kOk, {}};
}

}  // namespace shoal
