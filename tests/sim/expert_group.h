// A group of expert shards that is made up: its steps are as many as time allows, its gate chooses
// as the test says, and loading takes virtual time and may go wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "actors/expert_group.h"
#include "transport/scheduler.h"

namespace shoal::sim {

struct ExpertGroupSetup {
  ExpertShape shape{.experts = 16, .ranks = 4, .slots = 5, .node_ranks = 4};
  std::int32_t layers = 3;
  std::int64_t tokens = 64;  // of a step
  std::int32_t top_k = 2;
  Nanos step{std::chrono::milliseconds(20)};
  Nanos load{std::chrono::milliseconds(150)};  // of a placement
};

// How a placement goes.
enum class PlaceFate : std::uint8_t {
  kWorks,
  kFails,       // half of it was loaded
  kLost,        // nobody hears of it, and nothing happens
  kAnswerLost,  // in force, and nobody hears of it
  kLate,        // loading takes longer than there is time
};

class SimExpertGroup final : public ExpertGroup {
 public:
  SimExpertGroup(const ExpertGroupSetup& setup, transport::Scheduler scheduler);

  // What the gate chooses from now on: of each expert, a part of the rows of every layer.
  void choose(std::vector<double> popularity);

  // Of the next placements, in turn; those beyond work.
  void next(std::vector<PlaceFate> fates) { fates_ = std::move(fates); }

  std::vector<ExpertTraffic> traffic() const override;

  ExpertPlacementMap placement() const override { return placement_; }

  Bytes expert_bytes() const override { return Bytes{1'000}; }

  void place(std::vector<ExpertLayer> layers,
             Instant deadline,
             std::function<void(Result<EpochId>)> done) override;

  // The mean over layers of the fullest shard by the mean one, with the popularity and the
  // placement of now, rows of replicas split as steps split them.
  double imbalance() const;

  std::int64_t asked() const { return asked_; }

  // Placements that were asked for while another was loaded.
  std::int64_t overlapping() const { return overlapping_; }

 private:
  void pass_time() const;
  void settle(std::vector<ExpertLayer> layers);

  ExpertGroupSetup setup_;
  transport::Scheduler scheduler_;
  std::vector<double> popularity_;
  ExpertPlacementMap placement_;
  std::vector<PlaceFate> fates_;
  std::int64_t asked_ = 0;
  std::int64_t loading_ = 0;
  std::int64_t overlapping_ = 0;
  mutable Instant counted_;
  mutable std::vector<ExpertTraffic> traffic_;
};

}  // namespace shoal::sim
