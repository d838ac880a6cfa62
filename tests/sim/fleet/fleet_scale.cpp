// Units go by number: those with low ones come first and go last.
#include "tests/sim/fleet/fleet_scale.h"

#include <algorithm>
#include <array>
#include <utility>

#include "schemas/check.h"

namespace shoal::sim {
namespace {

constexpr Nanos kBucket = std::chrono::minutes(1);
constexpr std::int64_t kBucketSeconds = 60;

PoolShape shape_of(int ranks, int permille, int least, int most) {
  PoolShape shape;
  shape.ranks = ranks;
  shape.target_permille = permille;
  shape.limit_permille = std::max(permille, shape.limit_permille);
  shape.least = std::min(least, most);
  shape.most = most;
  return shape;
}

std::unique_ptr<Autoscaler> make_scaler(const fleet::Fleet& fleet) {
  const fleet::Scale& scale = fleet.scale();
  if (scale.policy().empty()) {
    return nullptr;
  }
  const auto rows = autoscale_policies();
  const auto row = std::find_if(
      rows.begin(), rows.end(), [&](const AutoscaleRow& r) { return r.name == scale.policy(); });
  CHECK(row != rows.end());
  ScaleTiming timing;
  timing.bucket = kBucket;
  timing.provisioning = std::chrono::seconds(scale.provision_s());
  timing.hold = std::chrono::seconds(scale.hold_s());
  const std::array shapes{
      shape_of(fleet.prefill().ranks(),
               scale.prefill_permille(),
               scale.least(),
               fleet.prefill().instances()),
      shape_of(
          fleet.decode().ranks(), scale.decode_permille(), scale.least(), fleet.decode().groups())};
  return row->make(timing, shapes);
}

}  // namespace

FleetScale::FleetScale(const fleet::Fleet& fleet)
    : provisioning_(std::chrono::seconds(fleet.scale().provision_s())),
      scaler_(make_scaler(fleet)) {
  of(FleetPool::kPrefill)
      .units.resize(static_cast<std::size_t>(fleet.prefill().instances()), State::kOpen);
  of(FleetPool::kDecode)
      .units.resize(static_cast<std::size_t>(fleet.decode().groups()), State::kOpen);
}

std::int64_t FleetScale::wanted(const Pool& pool) {
  return std::count_if(pool.units.begin(), pool.units.end(), [](State state) {
    return state == State::kComing || state == State::kOpen;
  });
}

std::int64_t FleetScale::paid(FleetPool pool) const {
  const auto& units = of(pool).units;
  return std::ssize(units) - std::count(units.begin(), units.end(), State::kOff);
}

std::vector<FleetScale::Change> FleetScale::plan() {
  std::vector<Change> changes;
  if (!scaler_) {
    return changes;
  }
  std::array<PoolLoad, kFleetPools> loads;
  for (std::size_t p = 0; p < kFleetPools; ++p) {
    loads[p] = {.demand_ns = std::exchange(pools_[p].spent, 0) / kBucketSeconds,
                .units = wanted(pools_[p])};
  }
  const ScalePlan planned = scaler_->plan(loads);
  for (std::size_t p = 0; p < kFleetPools; ++p) {
    change(static_cast<FleetPool>(p), planned.pools[p].units, changes);
  }
  return changes;
}

void FleetScale::change(FleetPool pool, std::int64_t target, std::vector<Change>& changes) {
  std::vector<State>& units = of(pool).units;
  std::int64_t missing = target - wanted(of(pool));
  changes_ += missing != 0 ? 1 : 0;
  for (std::size_t u = 0; u < units.size() && missing > 0; ++u) {
    if (units[u] == State::kClosing) {
      units[u] = State::kOpen;
      changes.push_back({pool, u, true, true});
      --missing;
    }
  }
  for (std::size_t u = 0; u < units.size() && missing > 0; ++u) {
    if (units[u] == State::kOff) {
      units[u] = State::kComing;
      changes.push_back({pool, u, true, false});
      --missing;
    }
  }
  for (std::size_t u = units.size(); u-- > 0 && missing < 0;) {
    if (units[u] == State::kOpen) {
      units[u] = State::kClosing;
      changes.push_back({pool, u, false, true});
      ++missing;
    }
  }
}

void FleetScale::came_up(FleetPool pool, std::size_t unit) {
  of(pool).units[unit] = State::kOpen;
}

void FleetScale::emptied(FleetPool pool, std::size_t unit) {
  of(pool).units[unit] = State::kOff;
}

}  // namespace shoal::sim
