// One split for each layer.
#include "tests/sim/fleet/expert_layers.h"

#include <algorithm>
#include <utility>

namespace shoal::sim {

ExpertLayers::ExpertLayers(const ExpertShape& shape,
                           const ExpertSplitRow& split,
                           std::int32_t layers)
    : shape_(shape),
      split_(split),
      layers_(layers),
      counts_(shape.experts),
      tokens_(shape.all_slots()),
      rank_tokens_(shape.ranks) {}

ExpertMoves ExpertLayers::plan(const ExpertPlanner& planner) {
  auto plans = planner.plan(current_);
  current_.resize(plans.size());
  ExpertMoves moves;
  for (std::size_t layer = 0; layer < plans.size(); ++layer) {
    current_[layer] = std::move(plans[layer].expert_at);
    moves.slots += plans[layer].moves.slots;
    moves.across_nodes += plans[layer].moves.across_nodes;
  }
  make_splits(planner);
  return moves;
}

void ExpertLayers::make_splits(const ExpertPlanner& planner) {
  const std::vector<double> loads = planner.loads();
  splits_.clear();
  for (std::size_t layer = 0; layer < current_.size(); ++layer) {
    splits_.push_back(split_.make(
        shape_, current_[layer], std::span(loads).subspan(layer * shape_.experts, shape_.experts)));
  }
}

double ExpertLayers::judge(const ExpertCounts& counts, std::int64_t steps, Samples* samples) {
  double sum = 0;
  std::fill(rank_tokens_.begin(), rank_tokens_.end(), 0);
  for (std::int32_t layer = 0; layer < layers_; ++layer) {
    const auto first = static_cast<std::size_t>(layer) * shape_.experts;
    for (std::int32_t expert = 0; expert < shape_.experts; ++expert) {
      counts_[expert] = static_cast<std::int32_t>((counts[first + expert] + steps / 2) / steps);
    }
    splits_[layer]->split(counts_, tokens_);
    const double imbalance = rank_levels(shape_, tokens_).imbalance(shape_.ranks);
    for (std::int32_t slot = 0; slot < shape_.all_slots(); ++slot) {
      rank_tokens_[shape_.rank_of(slot)] += tokens_[slot];
    }
    sum += imbalance;
    if (samples != nullptr) {
      samples->add(imbalance);
    }
  }
  return sum / layers_;
}

}  // namespace shoal::sim
