// What is said of a run: sums, samples, and a row a minute.
#pragma once

#include <span>

#include "tests/sim/fleet/fleet.h"
#include "tests/sim/fleet/fleet_decode.h"
#include "tests/sim/fleet/fleet_prefill.h"

namespace shoal::sim {

class FleetTally {
 public:
  explicit FleetTally(const fleet::Fleet& fleet) : fleet_(fleet) {}

  FleetFigures figures;

  // In the order of time.
  void event(Nanos at, std::uint64_t what);
  void arrived(const FleetRequest& request);

  void first_token() { --unanswered_; }

  // Tokens whose KV comes from the store.
  void loaded(std::int64_t tokens) {
    minute_.loaded_bytes += tokens * fleet_.store().token_bytes();
  }

  void images_ready(Nanos behind_arrival);

  void answered(std::int64_t tokens, Nanos to_first_token, Nanos behind_it);
  void refused(bool had_first_token);

  // `state`: what the minute ended with.
  void end_minute(std::span<const FleetPrefill> prefill,
                  std::span<const FleetDecode> decode,
                  const FleetMinute& state);
  FleetFigures end(std::span<const FleetPrefill> prefill,
                   std::span<const FleetDecode> decode,
                   const FleetMinute& state,
                   Nanos arrivals,
                   Nanos now);

 private:
  void pay(const FleetMinute& state, double hours);
  void end_decode(std::span<const FleetDecode> decode, double hours);

  fleet::Fleet fleet_;
  FleetMinute minute_;
  std::int64_t unanswered_ = 0;  // without a first token
  std::int64_t busy_before_ = 0;
};

}  // namespace shoal::sim
