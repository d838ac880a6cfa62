// Experts of a decode group while it works: loads drift, jump and are noisy, the planner places
// anew at the end of every window, or after a few steps when these were bad, and each step's tokens
// are split over replicas. Some steps of a window are drawn; others are as the last one drawn.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/policy/expert_plan.h"
#include "schemas/fleet.pb.h"
#include "tests/sim/fleet/expert_layers.h"
#include "tests/sim/fleet/expert_load_source.h"

namespace shoal::sim {

class FleetExperts {
 public:
  FleetExperts(const fleet::Experts& options, int ranks, std::uint64_t seed);

  // The fullest GPU over the mean one in a step of so many tokens.
  double step(std::int64_t tokens);

  // Over all steps: their tokens, and these times the fullest GPU over the mean one.
  double tokens() const { return all_tokens_; }

  double weighted() const { return weighted_; }

  // Of all 40 layers.
  double moved_bytes() const { return moved_bytes_; }

  // By window, as parts of the mean one: its GPUs' tokens, and those of the first layer's experts.
  const std::vector<std::vector<double>>& gpus() const { return gpus_; }

  const std::vector<std::vector<double>>& experts() const { return experts_; }

 private:
  void begin_window();
  void look(std::int64_t tokens);
  void end_window();
  void plan();

  fleet::Experts options_;
  ExpertLoadSource source_;
  std::unique_ptr<ExpertPlanner> planner_;
  ExpertLayers layers_;
  int at_ = 0;  // step of the window
  double factor_ = 1;
  double first_sum_ = 0;  // of the first steps' factors
  std::int64_t tokens_ = 0;
  std::vector<double> gpu_tokens_;
  double all_tokens_ = 0;
  double weighted_ = 0;
  double moved_bytes_ = 0;
  std::vector<std::vector<double>> gpus_;
  std::vector<std::vector<double>> experts_;
};

}  // namespace shoal::sim
