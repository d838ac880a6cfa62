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

// Columns for rows so that the sum of `cost` (row-major, square) is least. Shortest augmenting
// paths with potentials, O(n^3).
std::vector<std::int32_t> assign(std::span<const std::int32_t> cost, std::int32_t n) {
  constexpr std::int32_t kFar = std::numeric_limits<std::int32_t>::max() / 2;
  std::vector<std::int32_t> row_potential(n + 1, 0);
  std::vector<std::int32_t> column_potential(n + 1, 0);
  std::vector<std::int32_t> row_of(n + 1, 0);  // both from 1; 0: none
  std::vector<std::int32_t> before(n + 1, 0);
  for (std::int32_t row = 1; row <= n; ++row) {
    row_of[0] = row;
    std::int32_t column = 0;
    std::vector<std::int32_t> slack(n + 1, kFar);
    std::vector<bool> used(n + 1, false);
    do {
      used[column] = true;
      std::int32_t least = kFar;
      std::int32_t next = 0;
      for (std::int32_t c = 1; c <= n; ++c) {
        if (used[c]) {
          continue;
        }
        const std::int32_t reduced = cost[(row_of[column] - 1) * n + c - 1] -
                                     row_potential[row_of[column]] - column_potential[c];
        if (reduced < slack[c]) {
          slack[c] = reduced;
          before[c] = column;
        }
        if (slack[c] < least) {
          least = slack[c];
          next = c;
        }
      }
      for (std::int32_t c = 0; c <= n; ++c) {
        if (used[c]) {
          row_potential[row_of[c]] += least;
          column_potential[c] -= least;
        } else {
          slack[c] -= least;
        }
      }
      column = next;
    } while (row_of[column] != 0);
    for (; column != 0; column = before[column]) {
      row_of[column] = row_of[before[column]];
    }
  }
  std::vector<std::int32_t> column_of(n);
  for (std::int32_t c = 1; c <= n; ++c) {
    column_of[row_of[c] - 1] = c - 1;
  }
  return column_of;
}

// Which rank of [first, first + ranks) each of them in `to` becomes.
std::vector<std::int32_t> new_names(const ExpertShape& shape,
                                    Placement from,
                                    Placement to,
                                    std::int32_t first,
                                    std::int32_t ranks) {
  std::vector<std::int32_t> cost(static_cast<std::size_t>(ranks) * ranks, 0);
  for (std::int32_t old = 0; old < ranks; ++old) {
    std::vector<bool> held(shape.experts, false);
    for (const std::int32_t expert : rank_slots(shape, from, first + old)) {
      if (expert != kEmptySlot) {
        held[expert] = true;
      }
    }
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      const Placement wanted = rank_slots(shape, to, first + rank);
      for (std::size_t slot = 0; slot < wanted.size(); ++slot) {
        const std::int32_t expert = wanted[slot];
        const bool stays =
            expert != kEmptySlot && held[expert] && !holds(wanted.first(slot), expert);
        cost[static_cast<std::size_t>(rank) * ranks + old] -= stays ? 1 : 0;
      }
    }
  }
  return assign(cost, ranks);
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
