// What the simulated clients do: arrivals at the gateways, going away, stop strings, deadlines,
// reading slowly, conversations of several turns.
// Each is a real stream behind one gateway, with the truth to compare its answer with.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/scenario.pb.h"
#include "tests/sim/world.h"

namespace shoal::sim {

struct Asked {
  testing::Clients* clients = nullptr;
  NodeId gateway;
  RequestId request;
  Instant deadline;
  std::int64_t stop_after = 0;  // answer tokens after which a stop string ends it; 0: none
  int turn = 1;                 // of its conversation
};

class Workload {
 public:
  Workload(World& world, const scenario::Workload& plan);

  // Puts all arrivals on the timeline.
  void schedule();
  // One plain request at every living gateway, to see that the service is back.
  void probe();

  // Everything that was going to come has come.
  bool all_came() const { return to_come_ == 0; }

  const std::vector<Asked>& asked() const { return asked_; }

  // Index of the first probe in asked().
  std::size_t first_probe() const { return first_probe_; }

 private:
  void arrive();
  void ask(NodeId gateway, bool plain);
  void ask(NodeId gateway, testing::Wanted wanted, int turn);
  void watch(testing::Clients& clients);
  void ended(testing::Clients& clients, RequestId request);
  std::vector<NodeId> listening() const;
  bool chance(std::int32_t percent);
  std::int64_t between(std::int64_t low, std::int64_t high);

  World& world_;
  scenario::Workload plan_;
  std::int64_t to_come_ = 0;
  std::vector<Asked> asked_;
  std::vector<testing::Clients*> watched_;

  struct Leaving {
    RequestId request;
    std::size_t after = 0;
  };

  std::vector<Leaving> leaving_;
  std::size_t first_probe_ = SIZE_MAX;
};

}  // namespace shoal::sim
