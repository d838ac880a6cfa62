// Renaming: the assignment of new ranks to old ones that keeps most experts (Hungarian method),
// then each expert that stays keeps its slot.
#include "actors/policy/expert_placement.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "schemas/check.h"

namespace shoal {

namespace {

using Placement = std::span<const std::int32_t>;

Placement rank_slots(const ExpertShape& shape, Placement expert_at, std::int32_t rank) {
  return expert_at.subspan(static_cast<std::size_t>(rank) * shape.slots, shape.slots);
}

bool holds(Placement slots, std::int32_t expert) {
  return std::find(slots.begin(), slots.end(), expert) != slots.end();
}

// Columns for rows so that the sum of `cost` (row-major, square) is least: rows get their cheapest
// column while it is free, then the others one by one the shortest augmenting path (with
// potentials, O(n^3)).
class Assignment {
 public:
  Assignment(std::span<const std::int32_t> cost, std::int32_t n)
      : cost_(cost),
        n_(n),
        row_potential_(n + 1, 0),
        column_potential_(n + 1, 0),
        row_of_(n + 1, 0),
        before_(n + 1, 0) {}

  std::vector<std::int32_t> solve() {
    std::vector<std::int32_t> rest;
    for (std::int32_t row = 1; row <= n_; ++row) {
      if (!take_cheapest(row)) {
        rest.push_back(row);
      }
    }
    for (const std::int32_t row : rest) {
      augment(row);
    }
    std::vector<std::int32_t> column_of(n_);
    for (std::int32_t column = 1; column <= n_; ++column) {
      column_of[row_of_[column] - 1] = column - 1;
    }
    return column_of;
  }

 private:
  static constexpr std::int32_t kFar = std::numeric_limits<std::int32_t>::max() / 2;

  std::int32_t cost(std::int32_t row, std::int32_t column) const {
    return cost_[static_cast<std::size_t>(row - 1) * n_ + column - 1];
  }

  bool take_cheapest(std::int32_t row) {
    std::int32_t cheapest = 1;
    for (std::int32_t column = 2; column <= n_; ++column) {
      const std::int32_t gain = cost(row, cheapest) - cost(row, column);
      cheapest = gain > 0 || (gain == 0 && row_of_[cheapest] != 0) ? column : cheapest;
    }
    row_potential_[row] = cost(row, cheapest);
    if (row_of_[cheapest] != 0) {
      return false;
    }
    row_of_[cheapest] = row;
    return true;
  }

  void augment(std::int32_t row) {
    row_of_[0] = row;
    std::int32_t column = 0;
    std::vector<std::int32_t> slack(n_ + 1, kFar);
    std::vector<std::uint8_t> used(n_ + 1, 0);
    do {
      used[column] = 1;
      column = grow(column, slack, used);
    } while (row_of_[column] != 0);
    for (; column != 0; column = before_[column]) {
      row_of_[column] = row_of_[before_[column]];
    }
  }

  // The next column of the tree of shortest paths.
  std::int32_t grow(std::int32_t from,
                    std::vector<std::int32_t>& slack,
                    const std::vector<std::uint8_t>& used) {
    const std::int32_t row = row_of_[from];
    std::int32_t least = kFar;
    std::int32_t next = 0;
    for (std::int32_t column = 1; column <= n_; ++column) {
      if (used[column] != 0) {
        continue;
      }
      const std::int32_t reduced =
          cost(row, column) - row_potential_[row] - column_potential_[column];
      if (reduced < slack[column]) {
        slack[column] = reduced;
        before_[column] = from;
      }
      if (slack[column] < least) {
        least = slack[column];
        next = column;
      }
    }
    for (std::int32_t column = 0; column <= n_ && least != 0; ++column) {
      if (used[column] != 0) {
        row_potential_[row_of_[column]] += least;
        column_potential_[column] -= least;
      } else {
        slack[column] -= least;
      }
    }
    return next;
  }

  std::span<const std::int32_t> cost_;
  std::int32_t n_;  // rows and columns count from 1; 0: none
  std::vector<std::int32_t> row_potential_;
  std::vector<std::int32_t> column_potential_;
  std::vector<std::int32_t> row_of_;  // by column
  std::vector<std::int32_t> before_;  // by column: the one before it on the path
};

// Which rank of [first, first + ranks) each of them in `to` becomes.
std::vector<std::int32_t> new_names(const ExpertShape& shape,
                                    Placement from,
                                    Placement to,
                                    std::int32_t first,
                                    std::int32_t ranks) {
  const ReplicaIndex had(shape, from);
  std::vector<std::int32_t> cost(static_cast<std::size_t>(ranks) * ranks, 0);
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    const Placement wanted = rank_slots(shape, to, first + rank);
    for (std::size_t slot = 0; slot < wanted.size(); ++slot) {
      if (wanted[slot] == kEmptySlot || holds(wanted.first(slot), wanted[slot])) {
        continue;
      }
      std::int32_t before = -1;
      for (const std::int32_t from_slot : had.slots_of(wanted[slot])) {
        const std::int32_t old = shape.rank_of(from_slot) - first;
        if (old != before && old >= 0 && old < ranks) {
          --cost[static_cast<std::size_t>(rank) * ranks + old];
        }
        before = old;
      }
    }
  }
  return Assignment(cost, ranks).solve();
}

// The experts of `wanted` in the order of `had`, new ones in the slots that are left.
void fill_in_order(Placement had, Placement wanted, std::span<std::int32_t> slots) {
  std::vector<std::int32_t> rest(wanted.begin(), wanted.end());
  std::fill(slots.begin(), slots.end(), kEmptySlot);
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const auto same = std::find(rest.begin(), rest.end(), had[s]);
    if (same != rest.end()) {
      slots[s] = had[s];
      rest.erase(same);
    }
  }
  std::erase(rest, kEmptySlot);
  auto next = rest.begin();
  for (std::size_t s = 0; s < slots.size() && next != rest.end(); ++s) {
    if (slots[s] == kEmptySlot) {
      slots[s] = *next++;
    }
  }
}

}  // namespace

std::string_view unplannable(const ExpertShape& shape) {
  constexpr std::int32_t kMost = 1 << 20;
  if (shape.experts <= 0 || shape.ranks <= 0 || shape.slots <= 0 || shape.node_ranks <= 0) {
    return "experts, ranks, slots and the ranks of a node must be at least 1";
  }
  if (shape.experts > kMost || shape.ranks > kMost || shape.slots > kMost / shape.ranks) {
    return "more than 2^20 experts or slots";
  }
  if (shape.all_slots() < shape.experts) {
    return "fewer slots than experts: add ranks or slots";
  }
  return {};
}

ReplicaIndex::ReplicaIndex(const ExpertShape& shape, std::span<const std::int32_t> expert_at)
    : first_(shape.experts + 1, 0) {
  CHECK(std::ssize(expert_at) == shape.all_slots());
  for (const std::int32_t expert : expert_at) {
    CHECK(expert >= kEmptySlot && expert < shape.experts);
    if (expert != kEmptySlot) {
      ++first_[expert + 1];
    }
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  slots_.resize(first_.back());
  std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
  for (std::int32_t slot = 0; slot < shape.all_slots(); ++slot) {
    if (expert_at[slot] != kEmptySlot) {
      slots_[next[expert_at[slot]]++] = slot;
    }
  }
}

bool serves_all(const ExpertShape& shape, std::span<const std::int32_t> expert_at) {
  std::vector<bool> served(shape.experts, false);
  for (const std::int32_t expert : expert_at) {
    if (expert < kEmptySlot || expert >= shape.experts) {
      return false;
    }
    if (expert != kEmptySlot) {
      served[expert] = true;
    }
  }
  return std::ssize(expert_at) == shape.all_slots() &&
         std::find(served.begin(), served.end(), false) == served.end();
}

ExpertMoves moves_between(const ExpertShape& shape, Placement from, Placement to) {
  const ReplicaIndex sources(shape, from);
  ExpertMoves moves;
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    const Placement had = rank_slots(shape, from, rank);
    const Placement has = rank_slots(shape, to, rank);
    std::int64_t brought = 0;
    for (std::size_t s = 0; s < has.size(); ++s) {
      const std::int32_t expert = has[s];
      // A second replica of one expert on a rank is no copy either: both slots read one.
      if (expert == kEmptySlot || holds(had, expert) || holds(has.first(s), expert)) {
        continue;
      }
      ++brought;
      const std::int32_t node = shape.node_of(rank * shape.slots);
      const auto slots = sources.slots_of(expert);
      moves.across_nodes += std::none_of(slots.begin(), slots.end(), [&](std::int32_t slot) {
        return shape.node_of(slot) == node;
      });
    }
    moves.slots += brought;
    moves.most_of_rank = std::max(moves.most_of_rank, brought);
  }
  return moves;
}

SlotExperts keep_slots(const ExpertShape& shape, Placement from, Placement to, bool inside_nodes) {
  SlotExperts kept(to.size(), kEmptySlot);
  const std::int32_t width = inside_nodes ? shape.node_ranks : shape.ranks;
  for (std::int32_t first = 0; first < shape.ranks; first += width) {
    const std::int32_t ranks = std::min(width, shape.ranks - first);
    const auto names = new_names(shape, from, to, first, ranks);
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      const std::int32_t old = first + names[rank];
      fill_in_order(
          rank_slots(shape, from, old),
          rank_slots(shape, to, first + rank),
          std::span(kept).subspan(static_cast<std::size_t>(old) * shape.slots, shape.slots));
    }
  }
  return kept;
}

}  // namespace shoal
