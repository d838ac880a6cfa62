// The experts on nodes of their own as a group that is balanced: counts of all sources of rows, and
// one of them to bring a placement about. It is for the cluster's one balancer, and outlives it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/expert_group.h"
#include "actors/expert_report.h"

namespace shoal {

class ClusterGroup final : public ExpertGroup {
 public:
  // Plans are numbered from `first_plan`, which no other process gives.
  ClusterGroup(std::function<Instant()> now, std::uint64_t first_plan);

  // What sources told since the start: what was lost on the way is not in it.
  std::vector<ExpertTraffic> traffic() const override;
  ExpertPlacementMap placement() const override;
  bool is_ready() const override;
  Bytes expert_bytes() const override;
  void place(std::vector<ExpertLayer> layers,
             Instant deadline,
             std::function<void(Result<EpochId>)> done) override;

  // Called when there is an order to take.
  void on_order(std::function<void()> wake);

  struct Order {
    NodeId source;
    std::shared_ptr<const ExpertOrder> order;
  };

  std::optional<Order> take_order();

  // The sources that can be reached. Of others nothing is known from here on.
  void reach(const std::vector<NodeId>& sources);
  void told(const ExpertReport& report);
  // What took too long is given up.
  void tick();

  // The newest placement that some source uses, as far as is known.
  EpochId known() const;
  // All sources use it and nobody another one; none: not so.
  std::optional<EpochId> settled() const;

 private:
  struct Placing {
    std::uint64_t plan = 0;
    NodeId source;
    Instant deadline;
    std::shared_ptr<const ExpertOrder> order;  // null: it was taken
    std::function<void(Result<EpochId>)> done;
  };

  using Done = std::function<void()>;  // without the lock

  bool all_use(EpochId epoch) const;
  bool is_used(EpochId epoch) const;
  bool are_settled() const;
  Done end(Result<EpochId> outcome);
  Done judge();
  void add(const std::vector<ExpertTraffic>& traffic);

  const std::function<Instant()> now_;
  mutable std::mutex mutex_;  // guards what follows
  std::uint64_t plan_;
  std::function<void()> wake_;
  std::map<NodeId, std::optional<ExpertReport>> sources_;  // null: it has said nothing yet
  std::vector<ExpertTraffic> traffic_;
  ExpertPlacementMap placement_;  // the newest that is known
  Bytes expert_{0};
  std::optional<Placing> placing_;
};

}  // namespace shoal
