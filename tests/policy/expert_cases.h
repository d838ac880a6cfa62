// Loads and shapes that tests of expert placement share.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/policy/draw.h"
#include "actors/policy/expert_placement.h"

namespace shoal {

// Ten experts in a thousand are ten times as popular as most.
inline std::vector<double> drawn_loads(std::int32_t experts, std::uint64_t seed) {
  Draw draw(seed);
  std::vector<double> loads;
  for (std::int32_t expert = 0; expert < experts; ++expert) {
    const double rank = 1 + static_cast<double>(draw.below(100));
    loads.push_back(100 + 1'000 / rank);
  }
  return loads;
}

// Each load by up to `away` more or less.
inline std::vector<std::int32_t> drawn_counts(const std::vector<double>& loads,
                                              std::uint64_t seed,
                                              double away = 0.2) {
  Draw draw(seed);
  std::vector<std::int32_t> counts;
  for (const double load : loads) {
    counts.push_back(static_cast<std::int32_t>(load * (1 + away * (2 * draw.unit() - 1))));
  }
  return counts;
}

inline const std::vector<ExpertShape> kExpertShapes = {
    {.experts = 384, .ranks = 64, .slots = 7},
    {.experts = 384, .ranks = 8, .slots = 52},
    {.experts = 384, .ranks = 64, .slots = 6},
    {.experts = 48, .ranks = 12, .slots = 5},
    {.experts = 7, .ranks = 3, .slots = 4, .node_ranks = 2},
    {.experts = 3, .ranks = 8, .slots = 2},
    {.experts = 2, .ranks = 1, .slots = 5},
    {.experts = 1, .ranks = 1, .slots = 1},
};

}  // namespace shoal
