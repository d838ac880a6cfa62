// When recorded requests arrive at a fleet: the recording again and again, each time as other
// conversations. `rate` makes everything that many times faster, pauses too; `copies` lets that
// many recordings run beside each other at their own pace, each begun a little later, as many
// users are many conversations. A curve of rates slows all down where it is below its peak.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schemas/units.h"
#include "tests/sim/fleet/fleet.h"

namespace shoal::sim {

struct FleetArrival {
  Nanos at{0};  // below 0: before the run, for what is remembered of then
  const FleetRequest* what = nullptr;
  std::uint64_t copy = 0;  // of the recording
  // It was recorded before the part that is played: only what is remembered of it counts.
  bool is_past = false;
};

class FleetArrivals {
 public:
  // `remembers`: from so long ago that all recordings that run at 0 have begun; else from 0 on.
  FleetArrivals(const FleetLoad& load, bool remembers);

  // In the order of time, without end.
  FleetArrival next();

 private:
  struct Place {
    Nanos behind{0};          // the period's begin
    std::int64_t period = 0;  // of its recording
    std::size_t request = 0;
  };

  Nanos time_of(double recorded);

  std::span<const FleetRequest> requests_;
  double rate_;
  Nanos period_;
  std::vector<Place> places_;  // of one period
  std::size_t next_ = 0;
  std::int64_t round_ = 0;
  std::int64_t first_copy_ = 0;
  RateCurve curve_;
  // Where the curve is: its row began at this time, when so much was recorded.
  std::size_t row_ = 0;
  double row_began_ = 0;
  double row_recorded_ = 0;
};

}  // namespace shoal::sim
