// What is said of a run: sums, samples, and a row a minute.
#pragma once

#include <span>

#include "tests/sim/fleet/fleet.h"
#include "tests/sim/fleet/fleet_decode.h"
#include "tests/sim/fleet/fleet_prefill.h"

namespace shoal::sim {

class FleetTally {
 public:
  explicit FleetTally(const fleet::Slo& slo) : slo_(slo) {}

  FleetFigures figures;

  // In the order of time.
  void event(Nanos at, std::uint64_t what);
  void arrived(const FleetRequest& request);

  void first_token() { --unanswered_; }

  void answered(std::int64_t tokens, Nanos to_first_token, Nanos behind_it);
  void refused(bool had_first_token);

  void end_minute(std::span<const FleetPrefill> prefill, std::span<const FleetDecode> decode);
  FleetFigures end(const fleet::Fleet& fleet,
                   std::span<const FleetPrefill> prefill,
                   std::span<const FleetDecode> decode,
                   Nanos arrivals,
                   Nanos now);

 private:
  fleet::Slo slo_;
  FleetMinute minute_;
  std::int64_t unanswered_ = 0;  // without a first token
  std::int64_t busy_before_ = 0;
};

}  // namespace shoal::sim
