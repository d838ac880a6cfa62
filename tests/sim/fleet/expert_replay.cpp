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
  void plan();
  void judge_window(std::size_t window);
  void judge_steps(std::size_t window);

  const ExpertLoads& loads_;
  const ExpertReplaySetup& setup_;
  std::unique_ptr<ExpertPlanner> planner_;
  ExpertLayers layers_;
  ExpertMoves moves_;
  ExpertReplay figures_;
};

ExpertPlanSetup plan_setup(const ExpertLoads& loads, const ExpertReplaySetup& setup) {
  ExpertPlanSetup plan{setup.shape, loads.layers, {}, 1};
  plan.costs.steps = static_cast<double>(setup.window_steps);
  // Half of a step's time is in experts.
  plan.costs.layer_ns = setup.step_s * 1e9 / 2 / loads.layers;
  return plan;
}

Replay::Replay(const ExpertLoads& loads, const ExpertReplaySetup& setup)
    : loads_(loads),
      setup_(setup),
      planner_(setup.planner->make(plan_setup(loads, setup))),
      layers_(setup.shape, *setup.split, loads.layers) {}

void Replay::plan() {
  const bool is_first = layers_.empty();
  const ExpertMoves moves = layers_.plan(*planner_);
  moves_.slots += moves.slots;
  moves_.across_nodes += moves.across_nodes;
  figures_.plans += is_first ? 0 : 1;
}

void Replay::judge_window(std::size_t window) {
  layers_.judge(loads_.windows[window], setup_.window_steps, &figures_.windows);
  if (window > 1 && window_change(loads_, window - 1) > kChanged) {
    layers_.judge(loads_.windows[window], setup_.window_steps, &figures_.next);
  }
}

void Replay::judge_steps(std::size_t window) {
  const auto steps = loads_.steps.find(static_cast<std::int32_t>(window));
  if (steps == loads_.steps.end()) {
    return;
  }
  const bool is_changed = window_change(loads_, window) > kChanged;
  for (const ExpertCounts& counts : steps->second) {
    layers_.judge(counts, 1, is_changed ? &figures_.changed : &figures_.steps);
  }
  double sum = 0;
  for (std::int32_t step = 0; step < std::ssize(steps->second); ++step) {
    const bool has_reacted = step >= setup_.react_after;
    sum += layers_.judge(
        steps->second[step], 1, is_changed && has_reacted ? &figures_.reacted : nullptr);
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
