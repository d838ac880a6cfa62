// Which expert each slot of an expert-parallel group holds, for one layer; how many slots change
// between two placements, and how to rename ranks so that few do.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace shoal {

inline constexpr std::int32_t kEmptySlot = -1;

struct ExpertShape {
  std::int32_t experts = 0;
  std::int32_t ranks = 0;
  std::int32_t slots = 0;       // a rank
  std::int32_t node_ranks = 8;  // ranks of a node; the last node may have fewer

  std::int32_t all_slots() const { return ranks * slots; }

  std::int32_t rank_of(std::int32_t slot) const { return slot / slots; }

  std::int32_t node_of(std::int32_t slot) const { return slot / slots / node_ranks; }

  friend bool operator==(const ExpertShape&, const ExpertShape&) = default;
};

// Why nothing can be planned; empty: it can.
std::string_view unplannable(const ExpertShape& shape);

// The expert of slot s of rank r at r * slots + s.
using SlotExperts = std::vector<std::int32_t>;

// The slots of each expert, ascending.
class ReplicaIndex {
 public:
  ReplicaIndex(const ExpertShape& shape, std::span<const std::int32_t> expert_at);

  std::span<const std::int32_t> slots_of(std::int32_t expert) const {
    return std::span(slots_).subspan(first_[expert], first_[expert + 1] - first_[expert]);
  }

 private:
  std::vector<std::size_t> first_;  // by expert, and the end
  std::vector<std::int32_t> slots_;
};

// Every expert has a slot, and no slot holds what is no expert.
bool serves_all(const ExpertShape& shape, std::span<const std::int32_t> expert_at);

struct ExpertMoves {
  std::int64_t slots = 0;         // whose expert must be brought
  std::int64_t across_nodes = 0;  // of those, from another node
  std::int64_t most_of_rank = 0;  // brought to one rank
};

// An expert that a rank holds already, in whatever slot, is not moved.
ExpertMoves moves_between(const ExpertShape& shape,
                          std::span<const std::int32_t> from,
                          std::span<const std::int32_t> to);

// `to` with its ranks renamed (inside nodes only, or at will) and its slots reordered so that as
// many slots as possible stay as they are in `from`.
SlotExperts keep_slots(const ExpertShape& shape,
                       std::span<const std::int32_t> from,
                       std::span<const std::int32_t> to,
                       bool inside_nodes);

}  // namespace shoal
