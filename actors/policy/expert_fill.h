// Splits the tokens of a step over replicas so that the fullest rank is as low as possible.
//
// Ranks and replicated experts are joined by replicas; a spanning forest of these is settled
// exactly: from its leaves on, each rank takes what it still lacks to a level, and the least level
// at which nothing is left over is searched (0.2 % above the mean counts as level). The replicas
// outside the forest have shares that suit the forecast; only where that leaves a rank too full are
// they filled anew, lowest rank first.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "actors/policy/expert_placement.h"

namespace shoal {

class ExpertFill {
 public:
  // `forecast`: load of each expert in any unit, none negative.
  ExpertFill(const ExpertShape& shape,
             std::span<const std::int32_t> expert_at,
             std::span<const double> forecast);

  // Experts with one replica are where `expert_at` has them; the others did not change.
  void move_singles(std::span<const std::int32_t> expert_at);

  // Writes tokens of each slot; returns those of the fullest rank.
  std::int32_t split(std::span<const std::int32_t> counts, std::span<std::int32_t> tokens);

  // After a split: tokens of each rank.
  std::span<const std::int32_t> levels() const { return level_; }

  // Of each slot, in its expert's tokens, as suits the forecast.
  std::span<const double> shares() const { return shares_; }

 private:
  struct Single {
    std::int32_t expert = 0;
    std::int32_t slot = 0;
    std::int32_t rank = 0;
  };

  // An expert on several ranks: an edge to each. Of several slots of one rank the first is used.
  struct Multiple {
    std::int32_t expert = 0;
    std::int32_t first = 0;
    std::int32_t count = 0;
  };

  struct Edge {
    std::int32_t slot = 0;
    std::int32_t rank = 0;
    bool in_forest = false;
  };

  // From the leaves of the forest to its roots: a rank takes from the expert above it, or an
  // expert gives what is left to the rank above it.
  struct Visit {
    std::int32_t multiple = 0;
    std::int32_t edge = 0;
    std::int32_t rank = 0;
    bool is_rank = false;
  };

  void find_replicas(const ExpertShape& shape, std::span<const std::int32_t> expert_at);
  void grow_forest();
  void order_visits();
  void visit_tree(std::int32_t root,
                  std::span<const std::int32_t> first,
                  std::span<const std::int32_t> at_rank,
                  std::vector<bool>& seen);
  void find_shares(const ExpertShape& shape, std::span<const double> forecast);
  std::int64_t begin(std::span<const std::int32_t> counts, std::span<std::int32_t> tokens);
  void give_shares(std::span<const std::int32_t> counts);
  void sweep(std::span<const std::int32_t> counts);
  void fill_two(const Multiple& multiple, std::int32_t open);
  void fill_many(const Multiple& multiple, std::int32_t open);
  void fix_outside(std::span<const std::int32_t> counts);
  std::int32_t search(std::int32_t mean);
  std::int32_t settle(std::int32_t level);

  ExpertShape shape_;
  std::int32_t ranks_;
  std::vector<Single> singles_;
  std::vector<bool> is_single_;  // by expert
  std::vector<Multiple> multiples_;
  std::vector<Edge> edges_;
  std::vector<std::int32_t> outside_;  // edges that are not in the forest
  std::vector<std::int32_t> owner_;    // the multiple of each edge
  std::vector<Visit> visits_;
  std::vector<double> shares_;

  // Of the split under way.
  std::vector<std::int32_t> alone_;   // of each rank, by experts with one replica
  std::vector<std::int32_t> fixed_;   // of each rank, whatever the forest does
  std::vector<std::int32_t> rest_;    // of each multiple, for the forest
  std::vector<std::int32_t> level_;   // of each rank
  std::vector<std::int32_t> left_;    // of each multiple
  std::vector<std::int32_t> amount_;  // of each edge
  std::vector<std::pair<std::int32_t, std::int32_t>> lowest_;  // (level, edge) of one multiple
};

}  // namespace shoal
