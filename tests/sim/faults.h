// Carries out the faults of a scenario, and draws faults from a seed.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "schemas/result.h"
#include "schemas/scenario.pb.h"
#include "tests/sim/world.h"

namespace shoal::sim {

// What there is to break.
struct Breakable {
  std::vector<NodeRoles> nodes;
  bool has_store = false;
  int shards = 0;  // config.experts.shards

  // That hold the experts of all devices.
  bool has_expert_nodes() const;
  // Of the node.
  int expert_shards(std::uint32_t node) const;
  // Of all.
  int expert_shards() const;
};

std::vector<scenario::Fault> draw_faults(const scenario::RandomFaults& random,
                                         const Breakable& there,
                                         std::mt19937_64& seed);

// kMisconfigured: it would do nothing; names what there is. Of files: drawn faults may do nothing.
Result<void> check_fault(const scenario::Fault& fault, const Breakable& there);

// At its time, and its end after `for_ms`. Instants count from now.
void schedule_fault(World& world,
                    const scenario::Fault& fault,
                    std::map<std::string, std::int64_t>& counts);

}  // namespace shoal::sim
