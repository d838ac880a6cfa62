// Expert loads drawn window by window, by the model of expert_loads.h.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "actors/policy/draw.h"
#include "tests/sim/fleet/expert_loads.h"

namespace shoal::sim {

class ExpertLoadSource {
 public:
  ExpertLoadSource(const ExpertLoadModel& model, std::uint64_t seed);

  // The next window, also the first one. True: a domain got its multiple, or lost it.
  bool advance();

  // Of `groups` groups of `group_tokens` tokens, each of one domain.
  ExpertCounts counts(std::int64_t groups, std::int64_t group_tokens);

 private:
  static constexpr std::size_t kDomains = 6;

  void draw_popularity();
  bool wander();
  void find_probabilities();
  std::int64_t some_of(std::int64_t count, double chance);

  ExpertLoadModel model_;
  Draw draw_;
  std::vector<double> popularity_;                     // logarithm, by layer and expert
  std::array<std::vector<double>, kDomains> domains_;  // logarithm of a factor
  std::array<std::vector<double>, kDomains> probabilities_;
  std::array<double, kDomains> walk_{};
  std::array<std::int64_t, kDomains> jump_left_{};  // windows
  std::array<double, kDomains> shares_{};
};

}  // namespace shoal::sim
