// First come, first served.
#include "tests/sim/fleet/fleet_links.h"

#include <algorithm>
#include <cmath>

namespace shoal::sim {
namespace {

constexpr double kP99 = 2.326;  // deviations of a normal variable

}  // namespace

FleetLinks::FleetLinks(const fleet::Store& options, std::size_t instances)
    : ns_a_token_(static_cast<double>(options.token_bytes()) * 1e9 /
                  static_cast<double>(options.node_bytes_per_s())),
      store_ns_a_token_(static_cast<double>(options.token_bytes()) * 1e9 /
                        static_cast<double>(options.bytes_per_s())),
      p50_ns_(static_cast<double>(options.p50_us()) * 1e3),
      sigma_(
          std::log(static_cast<double>(options.p99_us()) / static_cast<double>(options.p50_us())) /
          kP99),
      free_(instances) {}

Nanos FleetLinks::carry(std::size_t instance, std::int64_t tokens, Nanos now) {
  const double ns = static_cast<double>(tokens) * ns_a_token_;
  free_[instance] = std::max(free_[instance], now) + Nanos{static_cast<std::int64_t>(ns)};
  return free_[instance];
}

std::optional<Nanos> FleetLinks::load(std::size_t instance,
                                      std::int64_t tokens,
                                      Nanos now,
                                      Nanos by) {
  const auto all = static_cast<double>(tokens);
  const Nanos sent =
      std::max(store_free_, now) + Nanos{static_cast<std::int64_t>(all * store_ns_a_token_)};
  const Nanos taken =
      std::max(free_[instance], now) + Nanos{static_cast<std::int64_t>(all * ns_a_token_)};
  if (by > Nanos{0} && std::max(sent, taken) > by) {
    return std::nullopt;
  }
  store_free_ = sent;
  free_[instance] = taken;
  return std::max(sent, taken);
}

Nanos FleetLinks::latency(std::mt19937_64& random) {
  return Nanos{static_cast<std::int64_t>(p50_ns_ * std::exp(sigma_ * normal_(random)))};
}

}  // namespace shoal::sim
