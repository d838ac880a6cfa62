// In every period, a recording's length divided by the copies, each request comes once, of one copy
// or another.
#include "tests/sim/fleet/fleet_arrivals.h"

#include <algorithm>
#include <tuple>

namespace shoal::sim {
namespace {

using std::chrono::milliseconds;

// Where a curve says nothing comes, still a little does: time must go on.
constexpr double kLeastRate = 1e-3;

std::int64_t floor_div(Nanos time, Nanos period) {
  const std::int64_t whole = time / period;
  return whole - (time % period < Nanos{0} ? 1 : 0);
}

}  // namespace

FleetArrivals::FleetArrivals(const FleetLoad& load, bool remembers)
    : requests_(load.trace->requests),
      rate_(load.rate),
      period_((requests_.back().prefill.arrival + milliseconds(1)) / load.copies),
      curve_(load.curve) {
  std::int64_t least = 0;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const Nanos at = requests_[i].prefill.arrival;
    if (at >= Nanos{0} || remembers) {
      const std::int64_t period = floor_div(at, period_);
      places_.push_back({at - period_ * period, period, i});
      least = std::min(least, period);
      most = std::max(most, period);
    }
  }
  std::sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) {
    return std::tie(a.behind, a.request) < std::tie(b.behind, b.request);
  });
  round_ = remembers ? least - most : 0;
  first_copy_ = round_ - most;
}

Nanos FleetArrivals::time_of(double recorded) {
  const double at = recorded / rate_;
  if (curve_.rates.empty() || at < 0) {
    return Nanos{static_cast<std::int64_t>(at)};
  }
  const double row_ns = static_cast<double>(curve_.row.count());
  while (true) {
    const double rate = std::max(curve_.rates[row_ % curve_.rates.size()], kLeastRate);
    if (at < row_recorded_ + rate * row_ns) {
      return Nanos{static_cast<std::int64_t>(row_began_ + (at - row_recorded_) / rate)};
    }
    row_recorded_ += rate * row_ns;
    row_began_ += row_ns;
    ++row_;
  }
}

FleetArrival FleetArrivals::next() {
  const Place& place = places_[next_];
  const Nanos recorded = place.behind + period_ * round_;
  const FleetRequest& what = requests_[place.request];
  const FleetArrival arrival{
      .at = time_of(static_cast<double>(recorded.count())),
      .what = &what,
      .copy = static_cast<std::uint64_t>(round_ - place.period - first_copy_),
      .is_past = what.prefill.arrival < Nanos{0}};
  next_ = (next_ + 1) % places_.size();
  round_ += next_ == 0 ? 1 : 0;
  return arrival;
}

}  // namespace shoal::sim
