// Machines of a fleet that come and go: the autoscaler's plan a minute, from the work that came in.
// A unit is a prefill instance or a decode group. One that goes takes no more requests and costs
// until it has ended what it has; the last one opened goes first, and comes back at once while it
// has not gone.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "actors/policy/autoscale.h"
#include "schemas/fleet.pb.h"
#include "schemas/units.h"

namespace shoal::sim {

enum class FleetPool : std::uint8_t { kPrefill, kDecode };
inline constexpr std::size_t kFleetPools = 2;

class FleetScale {
 public:
  // Without a policy all units are there and stay.
  explicit FleetScale(const fleet::Fleet& fleet);

  // Work that came in, of one rank, ns.
  void spend(FleetPool pool, Nanos work) { of(pool).spent += work.count(); }

  struct Change {
    FleetPool pool{};
    std::size_t unit = 0;
    bool opens = false;  // else it closes
    bool at_once = false;
  };

  // Once a minute.
  std::vector<Change> plan();

  void came_up(FleetPool pool, std::size_t unit);
  // A unit that closes has nothing left to do.
  void emptied(FleetPool pool, std::size_t unit);

  bool is_open(FleetPool pool, std::size_t unit) const {
    return of(pool).units[unit] == State::kOpen;
  }

  bool is_closing(FleetPool pool, std::size_t unit) const {
    return of(pool).units[unit] == State::kClosing;
  }

  // It serves, or ends what it has.
  bool works(FleetPool pool, std::size_t unit) const {
    return is_open(pool, unit) || is_closing(pool, unit);
  }

  // Units that cost.
  std::int64_t paid(FleetPool pool) const;

  std::int64_t changes() const { return changes_; }

  Nanos provisioning() const { return provisioning_; }

 private:
  enum class State : std::uint8_t { kOff, kComing, kOpen, kClosing };

  struct Pool {
    std::vector<State> units;
    std::int64_t spent = 0;  // ns since the last plan
  };

  Pool& of(FleetPool pool) { return pools_[static_cast<std::size_t>(pool)]; }

  const Pool& of(FleetPool pool) const { return pools_[static_cast<std::size_t>(pool)]; }

  static std::int64_t wanted(const Pool& pool);
  void change(FleetPool pool, std::int64_t target, std::vector<Change>& changes);

  Nanos provisioning_;
  std::unique_ptr<Autoscaler> scaler_;
  std::array<Pool, kFleetPools> pools_;
  std::int64_t changes_ = 0;
};

}  // namespace shoal::sim
