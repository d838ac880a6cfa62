// Rows are counted when somebody looks: whole steps since the last look.
#include "tests/sim/expert_group.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/policy/expert_balance.h"
#include "actors/policy/expert_eplb.h"
#include "actors/policy/expert_split.h"

namespace shoal::sim {
namespace {

std::vector<std::int32_t> step_of(const std::vector<double>& popularity, std::int64_t rows) {
  std::vector<std::int32_t> counts;
  for (const double part : popularity) {
    counts.push_back(static_cast<std::int32_t>(std::lround(part * static_cast<double>(rows))));
  }
  return counts;
}

std::vector<std::int64_t> rank_rows(const ExpertLayer& layer,
                                    const std::vector<double>& popularity,
                                    const std::vector<std::int32_t>& counts) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(layer.shape.all_slots()));
  expert_splits().front().make(layer.shape, layer.expert_at, popularity)->split(counts, tokens);
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(layer.shape.ranks));
  for (std::int32_t slot = 0; slot < layer.shape.all_slots(); ++slot) {
    ranks[static_cast<std::size_t>(layer.shape.rank_of(slot))] +=
        tokens[static_cast<std::size_t>(slot)];
  }
  return ranks;
}

}  // namespace

SimExpertGroup::SimExpertGroup(const ExpertGroupSetup& setup, transport::Scheduler scheduler)
    : setup_(setup),
      scheduler_(std::move(scheduler)),
      popularity_(static_cast<std::size_t>(setup.shape.experts), 1.0 / setup.shape.experts),
      counted_(scheduler_.now()) {
  placement_.epoch = EpochId{1};
  for (std::int32_t layer = 0; layer < setup.layers; ++layer) {
    placement_.layers.push_back({setup.shape, eplb_global(setup.shape, popularity_)});
    traffic_.push_back({0,
                        std::vector<std::int64_t>(popularity_.size()),
                        std::vector<std::int64_t>(static_cast<std::size_t>(setup.shape.ranks))});
  }
}

void SimExpertGroup::choose(std::vector<double> popularity) {
  pass_time();
  double sum = 0;
  for (const double part : popularity) {
    sum += part;
  }
  for (double& part : popularity) {
    part /= sum;
  }
  popularity_ = std::move(popularity);
}

void SimExpertGroup::pass_time() const {
  const std::int64_t steps = (scheduler_.now() - counted_) / setup_.step;
  counted_ += steps * setup_.step;
  if (steps == 0) {
    return;
  }
  const std::vector<std::int32_t> counts = step_of(popularity_, setup_.tokens * setup_.top_k);
  for (std::size_t i = 0; i < traffic_.size(); ++i) {
    ExpertTraffic& layer = traffic_[i];
    const auto ranks = rank_rows(placement_.layers[i], popularity_, counts);
    layer.exchanges += steps;
    for (std::size_t expert = 0; expert < counts.size(); ++expert) {
      layer.experts[expert] += steps * counts[expert];
    }
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      layer.ranks[rank] += steps * ranks[rank];
    }
  }
}

std::vector<ExpertTraffic> SimExpertGroup::traffic() const {
  pass_time();
  return traffic_;
}

void SimExpertGroup::settle(std::vector<ExpertLayer> layers) {
  pass_time();
  placement_ = {EpochId{placement_.epoch.value + 1}, std::move(layers)};
}

void SimExpertGroup::place(std::vector<ExpertLayer> layers,
                           Instant deadline,
                           std::function<void(Result<EpochId>)> done) {
  const auto turn = static_cast<std::size_t>(asked_++);
  const PlaceFate fate = turn < fates_.size() ? fates_[turn] : PlaceFate::kWorks;
  if (fate == PlaceFate::kLost) {
    return;
  }
  overlapping_ += loading_ > 0 ? 1 : 0;
  ++loading_;
  const Nanos time =
      fate == PlaceFate::kLate ? deadline - scheduler_.now() + setup_.load : setup_.load;
  scheduler_.defer(time,
                   [this, fate, layers = std::move(layers), done = std::move(done)]() mutable {
                     --loading_;
                     if (fate == PlaceFate::kFails) {
                       return done(fail(Code::kNoCapacity, "no memory for the other half"));
                     }
                     if (fate == PlaceFate::kLate) {
                       return done(fail(Code::kDeadline, "experts could not be loaded in time"));
                     }
                     settle(std::move(layers));
                     if (fate != PlaceFate::kAnswerLost) {
                       done(placement_.epoch);
                     }
                   });
}

double SimExpertGroup::imbalance() const {
  const std::vector<std::int32_t> counts = step_of(popularity_, setup_.tokens * setup_.top_k);
  double sum = 0;
  for (const ExpertLayer& layer : placement_.layers) {
    sum += fullest_by_mean(rank_rows(layer, popularity_, counts));
  }
  return sum / setup_.layers;
}

}  // namespace shoal::sim
