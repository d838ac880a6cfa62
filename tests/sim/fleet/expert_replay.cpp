// One planner for all layers, one split for each.
#include "tests/sim/fleet/expert_replay.h"

#include <cmath>
#include <numeric>
#include <utility>

namespace shoal::sim {

namespace {

// Drift and wandering shares change less, a domain that gets a multiple changes more.
constexpr double kChanged = 0.15;

class Replay {
 public:
  Replay(const ExpertLoads& loads, const ExpertReplaySetup& setup);

  ExpertReplay run() &&;

 private:
  using Counts = std::vector<std::int32_t>;

  void plan();
  void make_splits();
  void judge_window(std::size_t window);
  void judge_steps(std::size_t window);
  double judge(const ExpertCounts& counts, std::int64_t steps, Samples* samples);

  const ExpertLoads& loads_;
  const ExpertReplaySetup& setup_;
  std::unique_ptr<ExpertPlanner> planner_;
  std::vector<SlotExperts> current_;
  std::vector<std::unique_ptr<ExpertSplit>> splits_;
  Counts counts_;
  Counts tokens_;
  ExpertMoves moves_;
  ExpertReplay figures_;
};

ExpertPlanSetup plan_setup(const ExpertLoads& loads, const ExpertReplaySetup& setup) {
  ExpertPlanSetup plan{setup.shape, loads.layers, {}, 1};
  plan.costs.steps = static_cast<double>(setup.window_steps);
  plan.costs.across_gain = setup.across_gain;
  // Half of a step's time is in experts.
  plan.costs.layer_ns = setup.step_s * 1e9 / 2 / loads.layers;
  return plan;
}

Replay::Replay(const ExpertLoads& loads, const ExpertReplaySetup& setup)
    : loads_(loads),
      setup_(setup),
      planner_(setup.planner->make(plan_setup(loads, setup))),
      counts_(loads.experts),
      tokens_(setup.shape.all_slots()) {}

void Replay::plan() {
  auto plans = planner_->plan(current_);
  const bool is_first = current_.empty();
  current_.resize(plans.size());
  for (std::size_t layer = 0; layer < plans.size(); ++layer) {
    current_[layer] = std::move(plans[layer].expert_at);
    moves_.slots += plans[layer].moves.slots;
    moves_.across_nodes += plans[layer].moves.across_nodes;
  }
  figures_.plans += is_first ? 0 : 1;
  make_splits();
}

void Replay::make_splits() {
  const std::vector<double> loads = planner_->loads();
  splits_.clear();
  for (std::size_t layer = 0; layer < current_.size(); ++layer) {
    splits_.push_back(
        setup_.split->make(setup_.shape,
                           current_[layer],
                           std::span(loads).subspan(layer * loads_.experts, loads_.experts)));
  }
}

// The mean over layers; each layer is a sample. `counts` are of so many steps.
double Replay::judge(const ExpertCounts& counts, std::int64_t steps, Samples* samples) {
  double sum = 0;
  for (std::int32_t layer = 0; layer < loads_.layers; ++layer) {
    const auto first = static_cast<std::size_t>(layer) * loads_.experts;
    for (std::int32_t expert = 0; expert < loads_.experts; ++expert) {
      counts_[expert] = static_cast<std::int32_t>((counts[first + expert] + steps / 2) / steps);
    }
    splits_[layer]->split(counts_, tokens_);
    const double imbalance = rank_levels(setup_.shape, tokens_).imbalance(setup_.shape.ranks);
    sum += imbalance;
    if (samples != nullptr) {
      samples->add(imbalance);
    }
  }
  return sum / loads_.layers;
}

void Replay::judge_window(std::size_t window) {
  judge(loads_.windows[window], setup_.window_steps, &figures_.windows);
  if (window > 1 && window_change(loads_, window - 1) > kChanged) {
    judge(loads_.windows[window], setup_.window_steps, &figures_.next);
  }
}

void Replay::judge_steps(std::size_t window) {
  const auto steps = loads_.steps.find(static_cast<std::int32_t>(window));
  if (steps == loads_.steps.end()) {
    return;
  }
  const bool is_changed = window_change(loads_, window) > kChanged;
  for (const ExpertCounts& counts : steps->second) {
    judge(counts, 1, is_changed ? &figures_.changed : &figures_.steps);
  }
  double sum = 0;
  for (std::int32_t step = 0; step < std::ssize(steps->second); ++step) {
    const bool has_reacted = step >= setup_.react_after;
    sum += judge(steps->second[step], 1, is_changed && has_reacted ? &figures_.reacted : nullptr);
    planner_->saw_step(steps->second[step]);
    if (step + 1 == setup_.react_after && sum > setup_.alarm * setup_.react_after) {
      plan();
    }
  }
}

ExpertReplay Replay::run() && {
  for (std::size_t window = 0; window < loads_.windows.size(); ++window) {
    if (window > 0) {
      plan();
      judge_window(window);
      judge_steps(window);
    }
    planner_->saw_window(loads_.windows[window]);
  }
  const auto slots = static_cast<double>(moves_.slots);
  const double all = static_cast<double>(setup_.shape.all_slots()) * loads_.layers *
                     static_cast<double>(figures_.plans);
  const double hours = static_cast<double>(loads_.windows.size() - 1) *
                       static_cast<double>(setup_.window_steps) * setup_.step_s / 3'600;
  figures_.moved = all > 0 ? slots / all : 0;
  figures_.moved_inside = slots > 0 ? 1 - static_cast<double>(moves_.across_nodes) / slots : 0;
  figures_.bytes_an_hour = hours > 0 ? slots * kExpertBytes / hours : 0;
  return std::move(figures_);
}

}  // namespace

double window_change(const ExpertLoads& loads, std::size_t window) {
  const auto sum_of = [](const ExpertCounts& counts) {
    return static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  };
  const ExpertCounts& before = loads.windows[window - 1];
  const ExpertCounts& now = loads.windows[window];
  const double scale_before = 1 / sum_of(before);
  const double scale_now = 1 / sum_of(now);
  double squares = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const double expected = static_cast<double>(before[i]) * scale_before;
    const double gone = static_cast<double>(now[i]) * scale_now - expected;
    squares += expected > 0 ? gone * gone / expected : 0;
  }
  return std::sqrt(squares);
}

ExpertReplay replay_experts(const ExpertLoads& loads, const ExpertReplaySetup& setup) {
  return Replay(loads, setup).run();
}

}  // namespace shoal::sim
