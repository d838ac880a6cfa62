// What a rank has too much is measured after the best split of the loads: only what cannot be
// passed on is a reason to move an expert.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "actors/policy/expert_fill.h"
#include "actors/policy/expert_pack.h"

namespace shoal {

namespace {

constexpr int kRounds = 8;
constexpr int kSwaps = 8;             // in a round
constexpr int kIdle = 2;              // rounds without less risk, then no more
constexpr double kTolerated = 0.002;  // above the mean, of a rank: a split leaves that, too
constexpr double kSwapGain = 0.0005;  // of the mean rank
constexpr double kGuard = 2;          // deviations of a rank's load
constexpr double kMostGuard = 0.5;    // of what has several places
constexpr double kHot = 0.6;          // of a rank's load, in one replica: another would help
constexpr double kHotter = 1.3;       // than what the expert that loses a replica is left with

class Refinement {
 public:
  Refinement(const ExpertShape& shape,
             std::span<const std::int32_t> expert_at,
             const ExpertRisk& risk,
             bool inside_nodes)
      : shape_(shape),
        at_(expert_at.begin(), expert_at.end()),
        risk_(risk),
        loads_(risk.loads()),
        inside_nodes_(inside_nodes),
        mean_(std::accumulate(loads_.begin(), loads_.end(), 0.0) / shape.ranks) {}

  SlotExperts refine();

 private:
  // Of two experts with one replica each.
  struct Swap {
    double after = 0;         // the fuller of both ranks
    std::int32_t given = -1;  // slots
    std::int32_t taken = -1;
  };

  void count_replicas();
  void guard();
  bool give_replica();
  std::int32_t slot_for(std::int32_t expert, std::int32_t donor) const;
  bool holds(std::int32_t rank, std::int32_t expert) const;
  bool is_in_node(std::int32_t slot, std::int32_t expert) const;
  double level_ranks(ExpertFill& fill);
  bool swap_round();
  std::vector<std::int32_t> singles_of(std::int32_t rank) const;

  // Ranks that it may swap with.
  std::int32_t first_near(std::int32_t rank) const {
    return inside_nodes_ ? rank - rank % shape_.node_ranks : 0;
  }

  std::int32_t end_near(std::int32_t rank) const {
    return inside_nodes_ ? std::min(first_near(rank) + shape_.node_ranks, shape_.ranks)
                         : shape_.ranks;
  }

  bool relieve(std::int32_t rank, double mean);
  Swap better_swap(std::span<const std::int32_t> own,
                   std::int32_t rank,
                   std::int32_t other,
                   Swap best) const;

  ExpertShape shape_;
  SlotExperts at_;
  const ExpertRisk& risk_;
  std::span<const double> loads_;
  bool inside_nodes_;
  double mean_;                         // load of a rank
  std::vector<std::int32_t> counts_;    // tokens of each expert, guarded
  std::vector<std::int32_t> replicas_;  // of each expert
  std::vector<double> level_;           // of each rank, in those tokens
};

// A round may do harm: what was best is kept. Where one expert alone fills the fullest rank, rounds
// still relieve the next ones.
SlotExperts Refinement::refine() {
  for (std::int32_t i = 0; i < shape_.ranks && give_replica(); ++i) {
  }
  count_replicas();
  guard();
  ExpertFill fill(shape_, at_, loads_);
  SlotExperts best = at_;
  double least = level_ranks(fill);
  for (int round = 0, idle = 0; round < kRounds && idle < kIdle && swap_round(); ++round) {
    fill.move_singles(at_);
    const double fullest = level_ranks(fill);
    idle = fullest < least ? 0 : idle + 1;
    if (fullest <= least) {
      least = fullest;
      best = at_;
    }
  }
  return best;
}

// Splits the tokens; returns those of the fullest rank.
double Refinement::level_ranks(ExpertFill& fill) {
  std::vector<std::int32_t> tokens(shape_.all_slots());
  const double fullest = fill.split(counts_, tokens);
  level_.assign(fill.levels().begin(), fill.levels().end());
  return fullest;
}

// The forecast, but with more of what has one place only: so each rank keeps something to pass on.
void Refinement::guard() {
  counts_ = risk_.steps().front();
  double single = 0;
  double several = 0;
  for (std::int32_t expert = 0; expert < shape_.experts; ++expert) {
    (replicas_[expert] == 1 ? single : several) += counts_[expert];
  }
  if (single <= 0 || several <= 0) {
    return;
  }
  const double more =
      std::min(kGuard * risk_.spread() / std::sqrt(shape_.slots), kMostGuard * several / single);
  const double less = more * single / several;
  for (std::int32_t expert = 0; expert < shape_.experts; ++expert) {
    const double factor = replicas_[expert] == 1 ? 1 + more : 1 - less;
    counts_[expert] = static_cast<std::int32_t>(counts_[expert] * factor);
  }
}

void Refinement::count_replicas() {
  replicas_.assign(shape_.experts, 0);
  for (const std::int32_t expert : at_) {
    if (expert != kEmptySlot) {
      ++replicas_[expert];
    }
  }
}

bool Refinement::holds(std::int32_t rank, std::int32_t expert) const {
  const auto first = at_.begin() + static_cast<std::ptrdiff_t>(rank) * shape_.slots;
  return std::find(first, first + shape_.slots, expert) != first + shape_.slots;
}

bool Refinement::is_in_node(std::int32_t slot, std::int32_t expert) const {
  const std::int32_t node = shape_.node_of(slot);
  const std::int32_t end = std::min((node + 1) * shape_.node_ranks, shape_.ranks);
  for (std::int32_t rank = node * shape_.node_ranks; rank < end; ++rank) {
    if (holds(rank, expert)) {
      return true;
    }
  }
  return false;
}

// A slot of the donor that the expert could take.
std::int32_t Refinement::slot_for(std::int32_t expert, std::int32_t donor) const {
  for (std::int32_t slot = 0; slot < shape_.all_slots(); ++slot) {
    if (at_[slot] == donor && !holds(shape_.rank_of(slot), expert) &&
        (!inside_nodes_ || is_in_node(slot, expert))) {
      return slot;
    }
  }
  return kEmptySlot;
}

// The hottest replica's expert gets a slot of the expert that would be coolest without it.
bool Refinement::give_replica() {
  count_replicas();
  std::int32_t hot = 0;
  for (std::int32_t expert = 1; expert < shape_.experts; ++expert) {
    hot = loads_[expert] / replicas_[expert] > loads_[hot] / replicas_[hot] ? expert : hot;
  }
  const double heat = loads_[hot] / replicas_[hot];
  if (heat <= kHot * mean_) {
    return false;
  }
  std::int32_t slot = kEmptySlot;
  double coolest = heat / kHotter;
  for (std::int32_t donor = 0; donor < shape_.experts; ++donor) {
    const double after = replicas_[donor] > 1 ? loads_[donor] / (replicas_[donor] - 1) : heat;
    if (donor == hot || after >= coolest) {
      continue;
    }
    if (const std::int32_t own = slot_for(hot, donor); own != kEmptySlot) {
      slot = own;
      coolest = after;
    }
  }
  if (slot == kEmptySlot) {
    return false;
  }
  at_[slot] = hot;
  return true;
}

// A swap for some of the ranks that are too full; the split that follows relieves others as well.
// False: there was none.
bool Refinement::swap_round() {
  const double mean = std::accumulate(level_.begin(), level_.end(), 0.0) / shape_.ranks;
  std::vector<std::int32_t> full;
  for (std::int32_t rank = 0; rank < shape_.ranks; ++rank) {
    if (level_[rank] > mean * (1 + kTolerated)) {
      full.push_back(rank);
    }
  }
  std::sort(full.begin(), full.end(), [this](std::int32_t a, std::int32_t b) {
    return level_[a] != level_[b] ? level_[a] > level_[b] : a < b;
  });
  int swaps = 0;
  for (const std::int32_t rank : full) {
    if (swaps == kSwaps || level_[rank] <= mean * (1 + kTolerated)) {
      break;
    }
    swaps += relieve(rank, mean) ? 1 : 0;
  }
  return swaps > 0;
}

std::vector<std::int32_t> Refinement::singles_of(std::int32_t rank) const {
  std::vector<std::int32_t> slots;
  for (std::int32_t slot = rank * shape_.slots; slot < (rank + 1) * shape_.slots; ++slot) {
    if (at_[slot] != kEmptySlot && replicas_[at_[slot]] == 1) {
      slots.push_back(slot);
    }
  }
  return slots;
}

// With the expert and the rank after which the fuller of both is lowest: never below the mean of
// both, so most ranks need no look at their experts.
bool Refinement::relieve(std::int32_t rank, double mean) {
  const std::vector<std::int32_t> own = singles_of(rank);
  Swap best{.after = level_[rank] - mean * kSwapGain};
  for (std::int32_t other = first_near(rank); other < end_near(rank); ++other) {
    if (other != rank) {
      best = better_swap(own, rank, other, best);
    }
  }
  if (best.given < 0) {
    return false;
  }
  const double gain = counts_[at_[best.given]] - counts_[at_[best.taken]];
  level_[rank] -= gain;
  level_[shape_.rank_of(best.taken)] += gain;
  std::swap(at_[best.given], at_[best.taken]);
  return true;
}

Refinement::Swap Refinement::better_swap(std::span<const std::int32_t> own,
                                         std::int32_t rank,
                                         std::int32_t other,
                                         Swap best) const {
  for (std::int32_t taken = other * shape_.slots; taken < (other + 1) * shape_.slots; ++taken) {
    if (level_[rank] + level_[other] >= 2 * best.after) {
      break;
    }
    if (at_[taken] == kEmptySlot || replicas_[at_[taken]] > 1) {
      continue;
    }
    for (const std::int32_t given : own) {
      const double gain = counts_[at_[given]] - counts_[at_[taken]];
      const double after = std::max(level_[rank] - gain, level_[other] + gain);
      if (after < best.after) {
        best = {after, given, taken};
      }
    }
  }
  return best;
}

}  // namespace

SlotExperts refine_experts(const ExpertShape& shape,
                           std::span<const std::int32_t> expert_at,
                           const ExpertRisk& risk,
                           bool inside_nodes) {
  return Refinement(shape, expert_at, risk, inside_nodes).refine();
}

}  // namespace shoal
