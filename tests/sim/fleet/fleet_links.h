// How long KV is on its way: each instance's link carries one load after the other, what the store
// sends all of them together is bounded, too, and a load is there a latency later (lognormal).
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "schemas/fleet.pb.h"
#include "schemas/units.h"

namespace shoal::sim {

class FleetLinks {
 public:
  FleetLinks(const fleet::Store& options, std::size_t instances);

  // When `tokens` of KV have left or reached the instance.
  Nanos carry(std::size_t instance, std::int64_t tokens, Nanos now);
  // The same for what comes from the store. Unless `by` is 0, what would come after `by` is not
  // sent at all: nothing.
  std::optional<Nanos> load(std::size_t instance, std::int64_t tokens, Nanos now, Nanos by);
  Nanos latency(std::mt19937_64& random);

 private:
  double ns_a_token_;
  double store_ns_a_token_;
  double p50_ns_;
  double sigma_;
  std::normal_distribution<double> normal_;
  std::vector<Nanos> free_;
  Nanos store_free_{0};
};

}  // namespace shoal::sim
