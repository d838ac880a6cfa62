// A want of each role, what of it is held back, and then who can help whom.
#include "actors/policy/autoscale.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "actors/policy/demand_forecast.h"
#include "schemas/check.h"

namespace shoal {
namespace {

constexpr double kRankNs = 1e9;  // work of a rank a second

int buckets_of(Nanos time, Nanos bucket) {
  const std::int64_t count = (time.count() + bucket.count() - 1) / bucket.count();
  return static_cast<int>(std::clamp<std::int64_t>(count, 0, kMostScaleBuckets));
}

// The last so many wants.
class RecentWants {
 public:
  explicit RecentWants(int buckets) : buckets_(static_cast<std::size_t>(std::max(buckets, 1))) {}

  void add(std::int64_t want) {
    wants_.push_back(want);
    if (wants_.size() > buckets_) {
      wants_.pop_front();
    }
  }

  void clear() { wants_.clear(); }

  bool is_full() const { return wants_.size() == buckets_; }

  std::int64_t most() const { return *std::max_element(wants_.begin(), wants_.end()); }

 private:
  std::size_t buckets_;
  std::deque<std::int64_t> wants_;
};

// Lets units go when fewer were enough for a while.
class Hold {
 public:
  explicit Hold(const ScaleTiming& timing)
      : held_(buckets_of(timing.hold, timing.bucket)),
        recent_(buckets_of(kSudden, timing.bucket)),
        outage_(buckets_of(timing.outage, timing.bucket)) {}

  std::int64_t units(std::int64_t want, std::int64_t have) {
    recent_.add(want);
    if (want > have) {
      held_.clear();
      held_.add(want);
      outage_left_ = 0;
      return want;
    }
    held_.add(want);
    if (is_outage(want) && 2 * want < have) {
      return have;
    }
    return held_.is_full() ? std::min(held_.most(), have) : have;
  }

 private:
  static constexpr Nanos kSudden = std::chrono::minutes(15);

  bool is_outage(std::int64_t want) {
    if (outage_left_ > 0) {
      return --outage_left_ > 0;
    }
    outage_left_ = 2 * want < recent_.most() ? outage_ : 0;
    return outage_left_ > 0;
  }

  RecentWants held_;
  RecentWants recent_;
  int outage_;
  int outage_left_ = 0;
};

ScaleReason reason_of(std::int64_t want, std::int64_t units, std::int64_t have) {
  return units > have   ? ScaleReason::kGrows
         : units < have ? ScaleReason::kShrinks
         : want < have  ? ScaleReason::kHeld
                        : ScaleReason::kEnough;
}

// More would be asked for if there could be more.
bool is_at_most(const ScaleDecision& decision, const PoolShape& shape) {
  PoolShape one_more = shape;
  ++one_more.most;
  return decision.units == shape.most &&
         units_for(static_cast<double>(decision.expected_ns), shape.target_permille, one_more) >
             shape.most;
}

std::vector<Hold> holds(const ScaleTiming& timing, std::size_t pools) {
  return std::vector<Hold>(pools, Hold(timing));
}

class ForecastScaler final : public Autoscaler {
 public:
  ForecastScaler(const ScaleTiming& timing, std::span<const PoolShape> shapes, SeasonUse seasons)
      : shapes_(shapes.begin(), shapes.end()),
        holds_(holds(timing, shapes.size())) {
    CHECK(timing.bucket.count() > 0);
    const auto day = std::chrono::hours(24) / timing.bucket;
    forecasts_.assign(shapes.size(),
                      DemandForecast({.horizon = buckets_of(timing.provisioning, timing.bucket) + 1,
                                      .day = static_cast<int>(std::min<std::int64_t>(day, 86'400)),
                                      .seasons = seasons}));
  }

  ScalePlan plan(std::span<const PoolLoad> loads) override {
    CHECK(loads.size() == shapes_.size());
    ScalePlan plan;
    std::vector<std::int64_t> wants;
    for (std::size_t p = 0; p < loads.size(); ++p) {
      ScaleDecision& decision = plan.pools.emplace_back();
      wants.push_back(want(p, loads[p], decision));
      decision.units = holds_[p].units(wants[p], loads[p].units);
      decision.reason = is_at_most(decision, shapes_[p])
                            ? ScaleReason::kAtMost
                            : reason_of(wants[p], decision.units, loads[p].units);
    }
    flip(loads, wants, plan);
    return plan;
  }

 private:
  std::int64_t want(std::size_t pool, const PoolLoad& load, ScaleDecision& decision) {
    DemandForecast& forecast = forecasts_[pool];
    const PoolShape& shape = shapes_[pool];
    forecast.observe(static_cast<double>(std::max<std::int64_t>(load.demand_ns, 0)));
    const double expected = forecast.expected();
    const double surprise = expected * (1'000 + forecast.margin_permille()) / 1'000;
    decision.expected_ns = static_cast<std::int64_t>(std::min(expected, 9e18));
    decision.margin_permille = forecast.margin_permille();
    return std::max(units_for(expected, shape.target_permille, shape),
                    units_for(surprise, shape.limit_permille, shape));
  }

  // Units that `to` lacks from what `from` has beyond its want of now: it gets them back as fast.
  void flip(std::span<const PoolLoad> loads,
            std::span<const std::int64_t> wants,
            ScalePlan& plan) const {
    for (std::size_t to = 0; to < loads.size(); ++to) {
      std::int64_t lacks = plan.pools[to].units - loads[to].units;
      for (std::size_t from = 0; from < loads.size() && lacks > 0; ++from) {
        const std::int64_t spare =
            std::min(plan.pools[from].units, loads[from].units) - wants[from];
        const std::int64_t units = std::min(lacks, spare);
        if (units > 0 && may_swap(shapes_[from], shapes_[to])) {
          plan.flips.push_back({from, to, units});
          plan.pools[from].units -= units;
          plan.pools[from].reason = ScaleReason::kShrinks;
          lacks -= units;
        }
      }
    }
  }

  static bool may_swap(const PoolShape& a, const PoolShape& b) {
    return a.hardware != 0 && a.hardware == b.hardware && a.ranks == b.ranks;
  }

  std::vector<PoolShape> shapes_;
  std::vector<DemandForecast> forecasts_;
  std::vector<Hold> holds_;
};

// As many as the role may have, whatever comes.
class StaticScaler final : public Autoscaler {
 public:
  explicit StaticScaler(std::span<const PoolShape> shapes)
      : shapes_(shapes.begin(), shapes.end()) {}

  ScalePlan plan(std::span<const PoolLoad> loads) override {
    ScalePlan plan;
    for (std::size_t p = 0; p < loads.size(); ++p) {
      plan.pools.push_back({.units = shapes_[p].most,
                            .reason = reason_of(shapes_[p].most, shapes_[p].most, loads[p].units)});
    }
    return plan;
  }

 private:
  std::vector<PoolShape> shapes_;
};

// Kubernetes' horizontal autoscaler: units by how busy those there are, a tenth of tolerance.
class ReactiveScaler final : public Autoscaler {
 public:
  ReactiveScaler(ScaleTiming timing, std::span<const PoolShape> shapes)
      : shapes_(shapes.begin(), shapes.end()) {
    timing.outage = Nanos{0};
    holds_ = holds(timing, shapes.size());
  }

  ScalePlan plan(std::span<const PoolLoad> loads) override {
    ScalePlan plan;
    for (std::size_t p = 0; p < loads.size(); ++p) {
      const PoolShape& shape = shapes_[p];
      const auto demand = static_cast<double>(std::max<std::int64_t>(loads[p].demand_ns, 0));
      const double able = static_cast<double>(std::max<std::int64_t>(loads[p].units, 1)) *
                          static_cast<double>(shape.ranks) * kRankNs * shape.target_permille /
                          1'000;
      const bool tolerated = demand > 0.9 * able && demand < 1.1 * able;
      const std::int64_t want =
          tolerated ? loads[p].units : units_for(demand, shape.target_permille, shape);
      const std::int64_t units = holds_[p].units(want, loads[p].units);
      plan.pools.push_back({.units = units,
                            .reason = reason_of(want, units, loads[p].units),
                            .expected_ns = loads[p].demand_ns});
    }
    return plan;
  }

 private:
  std::vector<PoolShape> shapes_;
  std::vector<Hold> holds_;
};

constexpr AutoscaleRow kRows[] = {
    {"ours",
     "trend, and other days where they are nearer; enough for twice the surprise of late",
     [](const ScaleTiming& timing,
        std::span<const PoolShape> shapes) -> std::unique_ptr<Autoscaler> {
       return std::make_unique<ForecastScaler>(timing, shapes, SeasonUse::kWhereNearer);
     }},
    {"seasonal",
     "the larger of trend and other days, always",
     [](const ScaleTiming& timing,
        std::span<const PoolShape> shapes) -> std::unique_ptr<Autoscaler> {
       return std::make_unique<ForecastScaler>(timing, shapes, SeasonUse::kAlways);
     }},
    {"reactive",
     "by how busy ranks are now, as Kubernetes does",
     [](const ScaleTiming& timing,
        std::span<const PoolShape> shapes) -> std::unique_ptr<Autoscaler> {
       return std::make_unique<ReactiveScaler>(timing, shapes);
     }},
    {"static",
     "the most, always",
     [](const ScaleTiming& /*timing*/, std::span<const PoolShape> shapes)
         -> std::unique_ptr<Autoscaler> { return std::make_unique<StaticScaler>(shapes); }},
};

}  // namespace

std::span<const AutoscaleRow> autoscale_policies() {
  return kRows;
}

std::int64_t units_for(double demand_ns, int permille, const PoolShape& shape) {
  const double a_unit = static_cast<double>(std::max<std::int64_t>(shape.ranks, 1)) * kRankNs *
                        std::clamp(permille, 1, 1'000) / 1'000;
  const double units = demand_ns / a_unit;
  const std::int64_t most = std::max(shape.least, shape.most);
  // A number beyond the bounds would not fit an integer.
  const std::int64_t whole = units < static_cast<double>(most)
                                 ? static_cast<std::int64_t>(std::ceil(std::max(units, 0.0)))
                                 : most;
  return std::clamp(whole + shape.spares, shape.least, most);
}

}  // namespace shoal
