// One bucket after the other: units come up, work is served, and the next plan is made of what was
// counted.
#include "tests/sim/fleet/autoscale_replay.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

namespace shoal::sim {
namespace {

// Rate in the middle of a bucket; rows are means around their own middles.
double rate_at(const ServiceRates& service, double second) {
  const double place = std::max(0.0, second / service.row_s - 0.5);
  const auto row = std::min(static_cast<std::size_t>(place), service.per_s.size() - 1);
  const std::size_t next = std::min(row + 1, service.per_s.size() - 1);
  const double part = place - static_cast<double>(row);
  return service.per_s[row] + std::min(part, 1.0) * (service.per_s[next] - service.per_s[row]);
}

double seconds(Nanos time) {
  return static_cast<double>(time.count()) * 1e-9;
}

// Units of one pool; those asked for come up in their order.
class Units {
 public:
  explicit Units(std::int64_t up) : up_(up) {}

  std::int64_t up() const { return up_; }

  std::int64_t paid() const { return up_ + coming_; }

  void come_up(std::int64_t bucket) {
    for (; !ordered_.empty() && ordered_.front().bucket <= bucket; ordered_.pop_front()) {
      up_ += ordered_.front().count;
      coming_ -= ordered_.front().count;
    }
  }

  void set(std::int64_t count, std::int64_t ready) {
    const std::int64_t change = count - paid();
    if (change > 0) {
      ordered_.push_back({ready, change});
      coming_ += change;
    } else {
      up_ -= std::min(-change, up_);
    }
  }

 private:
  struct Order {
    std::int64_t bucket;
    std::int64_t count;
  };

  std::int64_t up_;
  std::int64_t coming_ = 0;
  std::deque<Order> ordered_;
};

class Replay {
 public:
  Replay(const AutoscaleRow& row, const ServiceRates& service, const AutoscaleLoad& load)
      : service_(service),
        load_(load),
        scaler_(row.make(load_.timing, {&load_.shape, 1})),
        ns_a_request_(work_of_request(service, load)),
        units_(needed(rate_at(service, 0))),
        random_(load.seed) {}

  AutoscaleFigures run() {
    const double bucket_s = seconds(load_.timing.bucket);
    const Nanos length = std::chrono::seconds(service_.row_s) * std::ssize(service_.per_s);
    const std::int64_t buckets = length / load_.timing.bucket;
    for (std::int64_t bucket = 0; bucket < buckets; ++bucket) {
      step(bucket, bucket_s);
    }
    ask_oracles(bucket_s / 3600);
    const auto all = static_cast<double>(std::max<std::int64_t>(buckets, 1));
    figures_.violating /= all;
    figures_.excess /= all;
    return figures_;
  }

 private:
  static double work_of_request(const ServiceRates& service, const AutoscaleLoad& load) {
    const double peak = *std::max_element(service.per_s.begin(), service.per_s.end());
    const double able = load.peak_units * static_cast<double>(load.shape.ranks) * 1e9 *
                        load.shape.target_permille / 1'000;
    return peak > 0 ? able / peak : 0;
  }

  std::int64_t needed(double rate) const {
    return units_for(rate * ns_a_request_, load_.shape.target_permille, load_.shape);
  }

  void step(std::int64_t bucket, double bucket_s) {
    units_.come_up(bucket);
    const double rate = rate_at(service_, (static_cast<double>(bucket) + 0.5) * bucket_s);
    serve(rate * ns_a_request_);
    figures_.unit_hours += static_cast<double>(units_.paid()) * bucket_s / 3600;
    needs_.push_back(needed(rate));
    std::poisson_distribution<std::int64_t> requests(std::max(rate * bucket_s, 1e-9));
    const double demand = static_cast<double>(requests(random_)) / bucket_s * ns_a_request_;
    const PoolLoad seen{.demand_ns = std::llround(demand), .units = units_.paid()};
    const std::int64_t wanted = scaler_->plan({&seen, 1}).pools[0].units;
    figures_.changes += wanted != units_.paid() ? 1 : 0;
    units_.set(wanted, bucket + 1 + delay());
  }

  // In buckets.
  std::int64_t delay() const {
    return (load_.timing.provisioning + load_.timing.bucket - Nanos{1}) / load_.timing.bucket;
  }

  // A unit that must be up costs from its delay before that on.
  void ask_oracles(double bucket_hours) {
    for (auto now = needs_.begin(); now != needs_.end(); ++now) {
      const auto left = std::min<std::int64_t>(needs_.end() - now, delay() + 1);
      figures_.oracle_hours += static_cast<double>(*now) * bucket_hours;
      figures_.delayed_hours +=
          static_cast<double>(*std::max_element(now, now + left)) * bucket_hours;
    }
    const auto too_few = static_cast<std::ptrdiff_t>(figures_.violating);
    std::sort(needs_.begin(), needs_.end(), std::greater<>());
    const auto spared = std::accumulate(needs_.begin(), needs_.begin() + too_few, std::int64_t{0});
    figures_.equal_hours = figures_.oracle_hours - static_cast<double>(spared) * bucket_hours;
  }

  void serve(double demand_ns) {
    const double able = static_cast<double>(units_.up() * load_.shape.ranks) * 1e9 *
                        load_.shape.limit_permille / 1'000;
    if (demand_ns > able) {
      figures_.violating += 1;
      figures_.excess += 1 - able / demand_ns;
    }
  }

  const ServiceRates& service_;
  AutoscaleLoad load_;
  std::unique_ptr<Autoscaler> scaler_;
  double ns_a_request_;
  Units units_;
  std::vector<std::int64_t> needs_;  // of each bucket so far
  std::mt19937_64 random_;
  AutoscaleFigures figures_;
};

}  // namespace

AutoscaleFigures replay_autoscale(const AutoscaleRow& row,
                                  const ServiceRates& service,
                                  AutoscaleLoad load) {
  load.shape.most = static_cast<std::int64_t>(std::ceil(load.peak_units));
  return Replay(row, service, load).run();
}

}  // namespace shoal::sim
