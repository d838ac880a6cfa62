// Candidates in the order of how much they move; a later one must be better.
#include "actors/policy/expert_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/policy/expert_eplb.h"
#include "actors/policy/expert_pack.h"
#include "actors/policy/expert_risk.h"
#include "schemas/check.h"

namespace shoal {

namespace {

constexpr std::int32_t kSmoothed = 50;  // steps that the alarm remembers
// Of the mean rank: a split counts ranks as level that are so near, and what was packed for splits
// keeps more to pass on.
constexpr double kSame = 0.002;

using Loads = std::span<const double>;

class OwnPlanner : public ExpertPlanner {
 public:
  explicit OwnPlanner(const ExpertPlanSetup& setup)
      : ExpertPlanner(setup),
        forecast_(setup.layers, setup.shape.experts) {}

  void saw_window(std::span<const std::int64_t> counts) override { forecast_.saw_window(counts); }

  void saw_step(std::span<const std::int64_t> counts) override { forecast_.saw_step(counts); }

  std::vector<double> loads() const override { return forecast_.loads(); }

 private:
  double spread() const override {
    const double error = forecast_.error();
    const double step = forecast_.step_spread();
    return std::sqrt(error * error + step * step);
  }

  ExpertPlan plan_layer(const Layer& layer) const override;
  ExpertPlan first_plan(const ExpertRisk& risk) const;
  double cost(const ExpertPlan& plan) const;

  ExpertForecast forecast_;
};

// Predicted ns until the next plan.
double OwnPlanner::cost(const ExpertPlan& plan) const {
  const ExpertPlanCosts& costs = setup_.costs;
  const double across = plan.moves.slots == 0 ? 0
                                              : static_cast<double>(plan.moves.across_nodes) /
                                                    static_cast<double>(plan.moves.slots);
  const double move = across * costs.across_ns + (1 - across) * costs.inside_ns;
  return plan.imbalance * costs.layer_ns * costs.steps +
         static_cast<double>(plan.moves.most_of_rank) * move;
}

ExpertPlan OwnPlanner::first_plan(const ExpertRisk& risk) const {
  SlotExperts packed = pack_experts(setup_.shape, risk.loads());
  SlotExperts published = eplb_global(setup_.shape, risk.loads());
  const double of_packed = risk.of(packed);
  const double of_published = risk.of(published);
  if (of_published < of_packed - kSame) {
    return {std::move(published), ExpertChange::kPublished, {}, 0, of_published};
  }
  return {std::move(packed), ExpertChange::kRepacked, {}, 0, of_packed};
}

ExpertPlan OwnPlanner::plan_layer(const Layer& layer) const {
  const ExpertShape& shape = setup_.shape;
  const Loads loads = layer.loads;
  const SlotExperts& current = layer.current;
  const ExpertRisk risk(
      shape, loads, layer.spread, setup_.seed + static_cast<std::uint64_t>(layer.number));
  if (current.empty()) {
    return first_plan(risk);
  }
  const double before = risk.of(current);
  ExpertPlan best{current, ExpertChange::kKept, {}, before, before};
  const auto consider = [&](SlotExperts expert_at, ExpertChange change) {
    ExpertPlan plan{std::move(expert_at), change, {}, before, 0};
    plan.moves = moves_between(shape, current, plan.expert_at);
    plan.imbalance = risk.of(plan.expert_at);
    if (cost(plan) < cost(best)) {
      best = std::move(plan);
    }
  };
  // What could be gained at most, in moves inside a node.
  const auto gain = [&] {
    return (best.imbalance - 1) * setup_.costs.layer_ns * setup_.costs.steps /
           setup_.costs.inside_ns;
  };
  const bool has_one_node = shape.ranks <= shape.node_ranks;
  const auto may_cross = [&] { return best.imbalance > 1 + setup_.costs.across_above; };
  if (gain() > 1) {
    consider(refine_experts(shape, current, risk, true), ExpertChange::kRefinedInside);
  }
  if (!has_one_node && may_cross() && gain() > 1) {
    consider(refine_experts(shape, best.expert_at, risk, false), ExpertChange::kRefined);
  }
  if (gain() > shape.slots && (has_one_node || may_cross())) {
    consider(keep_slots(shape, current, pack_experts(shape, loads), false),
             ExpertChange::kRepacked);
  }
  // Whatever refining and packing missed: the published placement is not better.
  if (gain() > 1 && (has_one_node || may_cross())) {
    const SlotExperts published = eplb_global(shape, loads);
    if (risk.of(published) < best.imbalance - kSame) {
      consider(keep_slots(shape, current, published, false), ExpertChange::kPublished);
    }
  }
  return best;
}

// Plans that look at the last window only.
class WindowPlanner : public ExpertPlanner {
 public:
  using Place = SlotExperts (*)(const ExpertShape& shape, Loads loads);

  WindowPlanner(const ExpertPlanSetup& setup, Place place)
      : ExpertPlanner(setup),
        place_(place),
        last_(static_cast<std::size_t>(setup.layers) * setup.shape.experts, 1) {}

  void saw_window(std::span<const std::int64_t> counts) override {
    CHECK(counts.size() == last_.size());
    std::transform(counts.begin(), counts.end(), last_.begin(), [](std::int64_t count) {
      return static_cast<double>(std::max<std::int64_t>(count, 0));
    });
  }

  void saw_step(std::span<const std::int64_t>) override {}

  std::vector<double> loads() const override { return last_; }

 private:
  ExpertPlan plan_layer(const Layer& layer) const override {
    ExpertPlan plan{place_(setup_.shape, layer.loads), ExpertChange::kRepacked, {}, 0, 0};
    if (!layer.current.empty()) {
      plan.moves = moves_between(setup_.shape, layer.current, plan.expert_at);
    }
    return plan;
  }

  Place place_;
  std::vector<double> last_;
};

SlotExperts place_contiguously(const ExpertShape& shape, Loads) {
  SlotExperts expert_at(shape.all_slots(), kEmptySlot);
  std::vector<std::int32_t> used(shape.ranks, 0);
  for (std::int32_t expert = 0; expert < shape.experts; ++expert) {
    const auto rank = static_cast<std::int32_t>(std::int64_t{expert} * shape.ranks / shape.experts);
    expert_at[rank * shape.slots + used[rank]++] = expert;
  }
  return expert_at;
}

SlotExperts place_by_node(const ExpertShape& shape, Loads loads) {
  return eplb_hierarchical(shape, loads, shape.experts);
}

template <WindowPlanner::Place kPlace>
std::unique_ptr<ExpertPlanner> by_window(const ExpertPlanSetup& setup) {
  return std::make_unique<WindowPlanner>(setup, kPlace);
}

std::unique_ptr<ExpertPlanner> ours(const ExpertPlanSetup& setup) {
  return std::make_unique<OwnPlanner>(setup);
}

constexpr ExpertPlanRow kRows[] = {
    {"ours", "replicas and ranks together, for a split by step; few moves", ours},
    {"eplb", "published, global", by_window<eplb_global>},
    {"eplb-nodes",
     "published, hierarchical: experts to nodes, replicas inside",
     by_window<place_by_node>},
    {"contiguous",
     "expert e on rank e ranks / experts, no replicas",
     by_window<place_contiguously>},
};

}  // namespace

std::string_view to_string(ExpertChange change) {
  switch (change) {
    case ExpertChange::kKept:
      return "kept";
    case ExpertChange::kRefinedInside:
      return "refined inside nodes";
    case ExpertChange::kRefined:
      return "refined";
    case ExpertChange::kRepacked:
      return "repacked";
    case ExpertChange::kPublished:
      return "as published";
  }
  return "unknown";
}

ExpertPlanner::ExpertPlanner(const ExpertPlanSetup& setup) : setup_(setup) {
  CHECK(unplannable(setup.shape).empty() && setup.layers > 0);
}

std::vector<ExpertPlan> ExpertPlanner::plan(std::span<const SlotExperts> current) const {
  const std::vector<double> all = loads();
  const double away = spread();
  const SlotExperts nothing;
  std::vector<ExpertPlan> plans;
  for (std::int32_t number = 0; number < setup_.layers; ++number) {
    const auto first = static_cast<std::size_t>(number) * setup_.shape.experts;
    const bool fits = number < std::ssize(current) && serves_all(setup_.shape, current[number]);
    plans.push_back(plan_layer({.number = number,
                                .loads = std::span(all).subspan(first, setup_.shape.experts),
                                .spread = away,
                                .current = fits ? current[number] : nothing}));
  }
  return plans;
}

std::span<const ExpertPlanRow> expert_planners() {
  return kRows;
}

bool ExpertAlarm::saw(double imbalance) {
  seen_ = std::min(seen_ + 1, kSmoothed);
  smoothed_ += (imbalance - smoothed_) / seen_;
  above_ = smoothed_ > limit_ ? above_ + 1 : 0;
  if (above_ < steps_) {
    return false;
  }
  *this = ExpertAlarm(limit_, steps_);
  return true;
}

}  // namespace shoal
