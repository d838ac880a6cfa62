// How the tokens of each expert are split over its replicas, so that the rank that receives most
// receives as few as possible. Rows, ours first:
// - `fill` knows what every expert gets in this step (ranks exchange these counts for the dispatch
//   anyway). It fills the lower replicas first, then makes that exact along a spanning forest of
//   ranks and experts: from its leaves on, each rank takes what it still lacks to the level.
// - `hash` needs no counts: a token's number picks the replica, by shares that suit the forecast.
// - `even` is what published balancers assume.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "actors/policy/expert_placement.h"

namespace shoal {

// Of one layer and placement. Not for several threads at a time.
class ExpertSplit {
 public:
  ExpertSplit() = default;
  ExpertSplit(const ExpertSplit&) = delete;
  ExpertSplit& operator=(const ExpertSplit&) = delete;
  virtual ~ExpertSplit() = default;

  // `counts`: tokens of each expert in a step. Writes tokens of each slot: those of an expert's
  // slots sum to its count. No count may be negative, nor their sum beyond 2^31.
  virtual void split(std::span<const std::int32_t> counts, std::span<std::int32_t> tokens) = 0;
};

struct ExpertSplitRow {
  std::string_view name;
  std::string_view what;
  // `forecast`: loads of each expert, in any unit.
  std::unique_ptr<ExpertSplit> (*make)(const ExpertShape& shape,
                                       std::span<const std::int32_t> expert_at,
                                       std::span<const double> forecast);
};

std::span<const ExpertSplitRow> expert_splits();

// Level of the fullest rank, and of all ranks together: their quotient is the imbalance.
struct RankLevels {
  std::int64_t most = 0;
  std::int64_t sum = 0;

  // 1 where there is no load at all.
  double imbalance(std::int32_t ranks) const;
};

RankLevels rank_levels(const ExpertShape& shape, std::span<const std::int32_t> tokens);

}  // namespace shoal
