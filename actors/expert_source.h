// The way of a device to expert shards on other nodes: who serves which placement, and the rows of
// its steps to them. Shards are asked through the actor of the same name.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/expert_dispatch.h"
#include "actors/expert_report.h"
#include "actors/expert_rollout.h"
#include "kernels/expert_engine.h"
#include "kernels/launch_queue.h"
#include "schemas/result.h"
#include "schemas/units.h"
#include "transport/expert_exchange.h"
#include "transport/scheduler.h"

namespace shoal {

struct ExpertSourceSetup {
  std::vector<ExpertHome> ranks;  // see expert_ranks()
  std::int32_t redundant = 0;     // slots of each shard and layer beyond those that all need
  ExpertDispatchLimits limits{};
  ExpertRollout::Placer placer{};
};

// Any thread.
class ExpertSource {
 public:
  // The exchange and its timers outlive it. kMisconfigured: the model cannot be spread so.
  static Result<std::unique_ptr<ExpertSource>> open(const ExpertSourceSetup& setup,
                                                    const kernels::ExpertModel& model,
                                                    transport::ExpertExchange& exchange,
                                                    transport::Scheduler timers);
  ~ExpertSource();

  // For the launch queue, whose steps end before this does. A step whose exchange is lost is lost;
  // then, and before the first placement, steps wait at their experts until shards serve them.
  kernels::ExchangeRunner runner();

  // The next placement, whatever epoch: in force when all shards hold and then serve it; steps on
  // the way end by the one before. One that some shard refuses changes nothing. kInvalid: it does
  // not serve all experts.
  Result<EpochId> place(std::vector<ExpertLayer> layers);
  // What the balancer wants. It is given up where it is not on its way into force in time: nothing
  // changed then. report() tells.
  void take(const ExpertOrder& order, Instant now);
  // `known`: the newest placement that somebody uses. `counts`: of all reports with them, each row
  // is in one.
  ExpertReport report(EpochId known, bool counts);
  // Now and then: what took too long is given up, or asked for again.
  void tick(Instant now);

  // Null: none yet.
  ExpertMapPtr placement() const;

  // Called whenever there are orders to take.
  void on_orders(std::function<void()> wake);
  std::vector<ExpertRollout::Order> take_orders();
  void told(std::size_t rank, const ExpertRollout::Told& said);
  // What it has in memory.
  void uses(std::size_t rank, const kernels::ExpertEngineUse& use);
  void lost(const std::vector<std::size_t>& ranks);

  // The node is gone: what is in flight to it fails at once.
  void lose(NodeId node) { exchange_.lose(node); }

  // Whoever asked the shards so far is gone.
  void doubt();

  const std::vector<ExpertHome>& ranks() const { return setup_.ranks; }

  // What the steps wait for; empty: nothing.
  std::string trouble() const;

  transport::ExpertExchange::Use exchange_use() const { return exchange_.use(); }

  std::vector<std::vector<std::int64_t>> routed() const { return dispatcher_.routed(); }

  std::vector<ExpertTraffic> traffic() const { return dispatcher_.traffic(); }

  void stop() { dispatcher_.stop(); }

 private:
  ExpertSource(const ExpertSourceSetup& setup,
               ExpertMapPtr first,
               transport::ExpertExchange& exchange,
               transport::Scheduler timers);

  // The last plan of the balancer.
  struct Plan {
    std::uint64_t number = 0;
    EpochId epoch;
    Instant deadline;
    std::string failure;  // empty: none so far
  };

  template <class Change>
  void change(const Change& change);
  Result<void> check(const std::vector<ExpertLayer>& layers) const;
  std::string refusal(const ExpertOrder& order) const;
  ExpertPlanState plan_state() const;

  const ExpertSourceSetup setup_;
  transport::ExpertExchange& exchange_;
  ExpertDispatcher dispatcher_;
  std::mutex changing_;       // held while what changed is made known
  mutable std::mutex mutex_;  // guards what follows
  ExpertRollout rollout_;
  EpochId published_;
  std::function<void()> wake_;
  std::vector<kernels::ExpertEngineUse> uses_;  // by rank
  std::vector<ExpertTraffic> reported_;         // up to the last report with counts
  Plan plan_;
  EpochId known_;  // the newest that somebody uses
  std::optional<Instant> waits_since_;
};

}  // namespace shoal
