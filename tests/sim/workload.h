// What the simulated clients do: arrivals at the gateways, going away, stop strings, deadlines,
// reading slowly, conversations of several turns; or what a trace says.
// Each is a real stream behind one gateway, with the truth to compare its answer with.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "schemas/scenario.pb.h"
#include "tests/sim/trace.h"
#include "tests/sim/world.h"

namespace shoal::sim {

struct Asked {
  testing::Clients* clients = nullptr;
  NodeId gateway{};
  RequestId request{};
  Instant deadline{};
  std::int64_t stop_after = 0;  // answer tokens after which a stop string ends it; 0: none
  int turn = 1;                 // of its conversation; 0: a plain one, which goes on to its end
  std::optional<std::size_t> traced{};  // request of the trace
};

class Workload {
 public:
  // With a trace, its requests come in place of drawn ones.
  Workload(World& world, const scenario::Workload& plan, std::optional<Trace> trace = {});

  // Puts all arrivals on the timeline.
  void schedule();
  // One plain request at every living gateway, to see that the service is back.
  void probe();

  // Everything that was going to come has come.
  bool all_came() const { return to_come_ == 0; }

  // Until the last one comes, at most.
  Nanos longest() const;

  const std::vector<Asked>& asked() const { return asked_; }

  // Requests that were never sent: "refused" where no gateway listened, "too_long" for the context.
  const std::map<std::string, std::int64_t>& unsent() const { return unsent_; }

  // Index of the first probe in asked().
  std::size_t first_probe() const { return first_probe_; }

 private:
  void arrive();
  void ask(NodeId gateway, bool plain);
  testing::Wanted drawn();
  void penalise(Sampling& sampling);
  void ask(NodeId gateway, testing::Wanted wanted, Asked one);
  void leave_later(const Asked& one, std::size_t after);
  void watch(testing::Clients& clients);
  void on_over(testing::Clients& clients, RequestId request);
  void on_tokens(testing::Clients& clients, RequestId request, std::size_t answered);
  void next_turn(testing::Wanted before, const testing::Answer& answer, int turn);
  void send(const Trace::Coming& coming);
  void send(std::size_t traced);
  void go_on_after(std::size_t traced);
  bool fits(std::int64_t prompt, std::int64_t answer);
  std::optional<NodeId> pick_gateway();
  std::vector<NodeId> listening() const;
  bool chance(std::int32_t percent);
  std::int64_t between(std::int64_t low, std::int64_t high);

  World& world_;
  scenario::Workload plan_;
  std::int64_t to_come_ = 0;
  std::vector<Asked> asked_;
  std::unordered_map<std::uint64_t, std::size_t> by_request_;  // in asked_
  std::unordered_map<std::uint64_t, std::size_t> leaving_;     // after so many tokens
  std::vector<testing::Clients*> watched_;
  std::map<std::string, std::int64_t> unsent_;
  std::optional<Trace> trace_;
  Instant began_{};
  std::size_t first_probe_ = SIZE_MAX;
};

}  // namespace shoal::sim
