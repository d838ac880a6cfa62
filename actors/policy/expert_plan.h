// Where the experts of a group go next: planners as registry rows, ours first.
//
// Ours compares, for each layer, what there is with a placement refined by moves inside nodes, one
// refined by any moves, one packed anew and the published one: so it is never behind that by more
// than the moves to it would cost, and what ranks that count as level may differ. What counts is
// predicted time: the imbalance of drawn steps times the steps until the next plan, and what the
// moves cost. Moves between nodes cost nine times as much, and are looked for only where moves
// inside leave a rank too full.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "actors/policy/expert_forecast.h"
#include "actors/policy/expert_placement.h"

namespace shoal {

struct ExpertPlanCosts {
  double layer_ns = 250'000;   // the experts of a layer in a balanced step
  double steps = 3'000;        // until the next plan
  double inside_ns = 42'000;   // bringing an expert of a layer inside a node: 18.8 MB at 450 GB/s
  double across_ns = 376'000;  // from another one: 50 GB/s
  double across_above = 0.02;  // the mean rank, of the fullest: below, nothing crosses nodes
};

struct ExpertPlanSetup {
  ExpertShape shape;
  std::int32_t layers = 1;
  ExpertPlanCosts costs{};
  std::uint64_t seed = 1;
};

enum class ExpertChange : std::uint8_t { kKept, kRefinedInside, kRefined, kRepacked, kPublished };

std::string_view to_string(ExpertChange change);

// Of one layer.
struct ExpertPlan {
  SlotExperts expert_at;
  ExpertChange change = ExpertChange::kKept;
  ExpertMoves moves;
  double imbalance_before = 0;  // predicted; 0: nothing was there, or the row does not predict
  double imbalance = 0;
};

class ExpertPlanner {
 public:
  explicit ExpertPlanner(const ExpertPlanSetup& setup);
  ExpertPlanner(const ExpertPlanner&) = delete;
  ExpertPlanner& operator=(const ExpertPlanner&) = delete;
  virtual ~ExpertPlanner() = default;

  // Counts of all experts, layer by layer.
  virtual void saw_window(std::span<const std::int64_t> counts) = 0;
  virtual void saw_step(std::span<const std::int64_t> counts) = 0;

  // Load of each expert, layer by layer, as a part of its layer's.
  virtual std::vector<double> loads() const = 0;

  // Until the next plan, from now on.
  void set_steps(double steps) { setup_.costs.steps = steps; }

  // One of each layer. `current` has as many; one that does not fit the shape is nothing.
  std::vector<ExpertPlan> plan(std::span<const SlotExperts> current) const;

 protected:
  // How far steps will be from loads(), relative.
  virtual double spread() const { return 0; }

  struct Layer {
    std::int32_t number = 0;
    std::span<const double> loads;
    double spread = 0;
    const SlotExperts& current;  // fits, or is empty
  };

  virtual ExpertPlan plan_layer(const Layer& layer) const = 0;

  ExpertPlanSetup setup_;
};

struct ExpertPlanRow {
  std::string_view name;
  std::string_view what;
  // unplannable(setup.shape) must be empty.
  std::unique_ptr<ExpertPlanner> (*make)(const ExpertPlanSetup& setup);
};

std::span<const ExpertPlanRow> expert_planners();

// When to plan before it is time: for so many steps the smoothed imbalance was too high. One layer
// is noise; an imbalance is the mean over layers.
class ExpertAlarm {
 public:
  explicit ExpertAlarm(double limit = 1.10, std::int32_t steps = 200)
      : limit_(limit),
        steps_(steps) {}

  // Fullest rank by the mean one, of a step. True: plan now; counts anew from then.
  bool saw(double imbalance);

 private:
  double limit_;
  std::int32_t steps_;
  std::int32_t seen_ = 0;
  std::int32_t above_ = 0;
  double smoothed_ = 0;
};

}  // namespace shoal
