// What must hold at every moment of a run, looked at while it runs: ceilings, and that health is
// the truth.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/sim/violation.h"
#include "tests/sim/world.h"

namespace shoal::sim {

class Monitor {
 public:
  explicit Monitor(World& world) : world_(world) {}

  // Looks from now on, as long as the world runs; outlives it.
  void start();

  // The first of each kind.
  const std::vector<Violation>& violations() const { return violations_; }

 private:
  void look();
  void ceilings(NodeId node);
  void files();
  void keeps_under(NodeId node, const std::string& what, std::int64_t count, std::int64_t ceiling);
  void store(NodeId node);
  void health(NodeId node);
  void is_not_ok(NodeId node, const std::string& why);
  void violate(const std::string& invariant, const std::string& what);

  World& world_;
  std::map<NodeId, transport::BlockStore::Use> seen_;
  std::map<NodeId, Instant> refuses_since_;  // of KV stores that write nothing
  std::vector<Violation> violations_;
};

}  // namespace shoal::sim
