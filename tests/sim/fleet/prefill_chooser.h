// A prefill balancer without its actor: what it knows of every instance, as late as reports are,
// and what it sent there since.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "actors/policy/prefill_policies.h"
#include "schemas/units.h"

namespace shoal::sim {

struct PrefillReport {
  PrefillInstance state;  // `ranks` and `step_left` are set by who reads it
  std::vector<PrefillRankLoad> ranks;
  Nanos step_ends{0};
};

class PrefillChooser {
 public:
  // `stale`: how old reports are when they are heard.
  PrefillChooser(const PrefillPolicyRow& policy,
                 std::uint64_t seed,
                 std::size_t instances,
                 Nanos stale);

  // Counts the request as sent there. Times never go back.
  std::optional<PrefillChoice> choose(const PrefillNeed& need, Nanos now);
  void report(std::size_t instance, PrefillReport report, Nanos now);

 private:
  struct Sent {
    std::size_t rank;
    PrefillNeed need;
  };

  struct Late {
    Nanos heard{0};
    std::size_t instance = 0;
    PrefillReport report;
    std::uint64_t received = 0;
  };

  struct Known {
    PrefillReport report;
    std::deque<Sent> sent;  // that the report does not contain
    std::uint64_t count = 0;
  };

  void hear(Nanos now);
  void hear(Late late);
  void add(PrefillReport& report, const Sent& sent) const;

  bool binds_ranks_;
  std::unique_ptr<PrefillPolicy> policy_;
  Nanos stale_;
  std::vector<Known> known_;
  std::deque<Late> late_;
  std::vector<PrefillInstance> view_;
};

}  // namespace shoal::sim
