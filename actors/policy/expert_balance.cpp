// One planner a shape; what the planners say is put back in the order of the layers.
#include "actors/policy/expert_balance.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "schemas/check.h"

namespace shoal {
namespace {

bool holds_the_same(const ExpertShape& shape, const SlotExperts& a, const SlotExperts& b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    const auto of_rank = [&shape, rank](const SlotExperts& expert_at) {
      const auto first = expert_at.begin() + std::ptrdiff_t{rank} * shape.slots;
      std::vector<std::int32_t> held(first, first + shape.slots);
      std::ranges::sort(held);
      const auto [left, end] = std::ranges::unique(held);
      held.erase(left, end);
      std::erase(held, kEmptySlot);
      return held;
    };
    if (of_rank(a) != of_rank(b)) {
      return false;
    }
  }
  return true;
}

void add(ExpertMoves& sum, const ExpertMoves& more) {
  sum.slots += more.slots;
  sum.across_nodes += more.across_nodes;
  sum.most_of_rank = std::max(sum.most_of_rank, more.most_of_rank);
}

void sum_up(ExpertBalancePlan& plan) {
  std::int32_t predicted = 0;
  for (const ExpertPlan& layer : plan.layers) {
    plan.changed += layer.change == ExpertChange::kKept ? 0 : 1;
    add(plan.moves, layer.moves);
    predicted += layer.imbalance_before > 0 ? 1 : 0;
    plan.imbalance_before += layer.imbalance_before;
    plan.imbalance += layer.imbalance_before > 0 ? layer.imbalance : 0;
  }
  plan.imbalance_before /= std::max(predicted, 1);
  plan.imbalance /= std::max(predicted, 1);
}

}  // namespace

ExpertBalance::ExpertBalance(const ExpertPlanRow& row,
                             std::vector<ExpertShape> layers,
                             const ExpertPlanCosts& costs,
                             std::uint64_t seed)
    : shapes_(std::move(layers)) {
  std::vector<bool> is_planned(shapes_.size());
  for (std::size_t first = 0; first < shapes_.size(); ++first) {
    if (is_planned[first]) {
      continue;
    }
    Alike& alike = alike_.emplace_back();
    for (std::size_t layer = first; layer < shapes_.size(); ++layer) {
      if (shapes_[layer] == shapes_[first]) {
        alike.layers.push_back(layer);
        is_planned[layer] = true;
      }
    }
    alike.planner = row.make({.shape = shapes_[first],
                              .layers = static_cast<std::int32_t>(alike.layers.size()),
                              .costs = costs,
                              .seed = seed + first});
  }
}

ExpertBalancePlan ExpertBalance::plan(std::span<const std::vector<std::int64_t>> rows,
                                      std::int64_t steps,
                                      std::span<const SlotExperts> current) {
  CHECK(rows.size() == shapes_.size() && current.size() == shapes_.size());
  ExpertBalancePlan plan;
  for (const SlotExperts& expert_at : current) {
    plan.layers.push_back({expert_at, ExpertChange::kKept, {}, 0, 0});
  }
  for (Alike& alike : alike_) {
    alike.planner->set_steps(static_cast<double>(steps));
    plan_alike(alike, rows, current, plan);
  }
  sum_up(plan);
  return plan;
}

std::vector<double> ExpertBalance::loads(std::size_t layer) const {
  for (const Alike& alike : alike_) {
    const auto at = std::ranges::find(alike.layers, layer);
    if (at != alike.layers.end()) {
      const std::vector<double> all = alike.planner->loads();
      const auto first = all.begin() + (at - alike.layers.begin()) * shapes_[layer].experts;
      return {first, first + shapes_[layer].experts};
    }
  }
  return {};
}

void ExpertBalance::plan_alike(Alike& alike,
                               std::span<const std::vector<std::int64_t>> rows,
                               std::span<const SlotExperts> current,
                               ExpertBalancePlan& plan) const {
  std::vector<std::int64_t> counts;
  std::vector<SlotExperts> placed;
  for (const std::size_t layer : alike.layers) {
    CHECK(rows[layer].size() == static_cast<std::size_t>(shapes_[layer].experts));
    counts.insert(counts.end(), rows[layer].begin(), rows[layer].end());
    placed.push_back(current[layer]);
  }
  if (std::ranges::all_of(counts, [](std::int64_t count) { return count <= 0; })) {
    return;
  }
  alike.planner->saw_window(counts);
  std::vector<ExpertPlan> planned = alike.planner->plan(placed);
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const std::size_t layer = alike.layers[i];
    if (holds_the_same(shapes_[layer], planned[i].expert_at, current[layer])) {
      plan.layers[layer].imbalance_before = planned[i].imbalance_before;
      plan.layers[layer].imbalance = planned[i].imbalance_before;
    } else {
      plan.layers[layer] = std::move(planned[i]);
    }
  }
}

double fullest_by_mean(std::span<const std::int64_t> loads) {
  const auto sum = std::accumulate(loads.begin(), loads.end(), std::int64_t{0});
  return sum <= 0 ? 1
                  : static_cast<double>(std::ranges::max(loads)) *
                        static_cast<double>(loads.size()) / static_cast<double>(sum);
}

}  // namespace shoal
