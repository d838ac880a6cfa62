// Both greedy loops with heaps: their order is (weight, number), so that ties fall as in a scan.
#include "actors/policy/expert_eplb.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "schemas/check.h"

namespace shoal {

namespace {

// The least on top.
template <class T>
using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

struct Candidate {
  double weight = 0;
  std::int32_t number = 0;

  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

std::vector<std::int32_t> by_weight(std::span<const double> weights) {
  std::vector<std::int32_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return weights[a] > weights[b];
  });
  return order;
}

std::vector<double> weights_of(std::span<const double> weights,
                               std::span<const std::int32_t> expert_of_replica) {
  std::vector<std::int32_t> count(weights.size(), 0);
  for (const std::int32_t expert : expert_of_replica) {
    ++count[expert];
  }
  std::vector<double> each;
  each.reserve(expert_of_replica.size());
  for (const std::int32_t expert : expert_of_replica) {
    each.push_back(weights[expert] / count[expert]);
  }
  return each;
}

// Replicas of the experts in `members` to the slots of `ranks` ranks, from `first` on.
void place(std::span<const double> weights,
           std::span<const std::int32_t> members,
           std::int32_t ranks,
           std::span<std::int32_t> slots) {
  std::vector<double> own;
  own.reserve(members.size());
  for (const std::int32_t expert : members) {
    own.push_back(weights[expert]);
  }
  const auto replicas = replicate_greedily(own, static_cast<std::int32_t>(slots.size()));
  const auto packed = balanced_packing(weights_of(own, replicas), ranks);
  const std::size_t slots_a_rank = slots.size() / ranks;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    slots[packed[i].pack * slots_a_rank + packed[i].place] = members[replicas[i]];
  }
}

}  // namespace

std::vector<PackedItem> balanced_packing(std::span<const double> weights, std::int32_t packs) {
  CHECK(packs > 0 && weights.size() % packs == 0);
  const auto room = static_cast<std::int32_t>(weights.size()) / packs;
  std::vector<PackedItem> packed(weights.size());
  if (room <= 1) {
    for (std::int32_t pack = 0; pack < std::ssize(packed); ++pack) {
      packed[pack] = {pack, 0};
    }
    return packed;
  }
  std::vector<std::int32_t> items(packs, 0);
  MinHeap<Candidate> open;
  for (std::int32_t pack = 0; pack < packs; ++pack) {
    open.push({0, pack});
  }
  for (const std::int32_t item : by_weight(weights)) {
    const auto [weight, pack] = open.top();
    open.pop();
    packed[item] = {pack, items[pack]};
    if (++items[pack] < room) {
      open.push({weight + weights[item], pack});
    }
  }
  return packed;
}

std::vector<std::int32_t> replicate_greedily(std::span<const double> weights,
                                             std::int32_t replicas) {
  const auto experts = static_cast<std::int32_t>(weights.size());
  CHECK(experts > 0 && replicas >= experts);
  std::vector<std::int32_t> expert_of(experts);
  std::iota(expert_of.begin(), expert_of.end(), 0);
  std::vector<std::int32_t> count(experts, 1);
  MinHeap<Candidate> open;  // negative: the largest on top, of equal ones the lowest number
  for (std::int32_t expert = 0; expert < experts; ++expert) {
    open.push({-weights[expert], expert});
  }
  while (std::ssize(expert_of) < replicas) {
    const std::int32_t expert = open.top().number;
    open.pop();
    expert_of.push_back(expert);
    open.push({-(weights[expert] / ++count[expert]), expert});
  }
  return expert_of;
}

SlotExperts eplb_global(const ExpertShape& shape, std::span<const double> weights) {
  CHECK(unplannable(shape).empty() && std::ssize(weights) == shape.experts);
  std::vector<std::int32_t> all(shape.experts);
  std::iota(all.begin(), all.end(), 0);
  SlotExperts expert_at(shape.all_slots());
  place(weights, all, shape.ranks, expert_at);
  return expert_at;
}

SlotExperts eplb_hierarchical(const ExpertShape& shape,
                              std::span<const double> weights,
                              std::int32_t groups) {
  CHECK(unplannable(shape).empty() && std::ssize(weights) == shape.experts);
  const std::int32_t nodes = (shape.ranks + shape.node_ranks - 1) / shape.node_ranks;
  if (groups <= 0 || groups % nodes != 0 || shape.experts % groups != 0 ||
      shape.ranks % nodes != 0) {
    return eplb_global(shape, weights);
  }
  const std::int32_t members = shape.experts / groups;
  std::vector<double> group_weights(groups, 0);
  for (std::int32_t expert = 0; expert < shape.experts; ++expert) {
    group_weights[expert / members] += weights[expert];
  }
  std::vector<std::vector<std::int32_t>> of_node(nodes,
                                                 std::vector<std::int32_t>(shape.experts / nodes));
  const auto packed = balanced_packing(group_weights, nodes);
  for (std::int32_t expert = 0; expert < shape.experts; ++expert) {
    const auto [node, place] = packed[expert / members];
    of_node[node][place * members + expert % members] = expert;
  }
  SlotExperts expert_at(shape.all_slots());
  const std::size_t slots_a_node = expert_at.size() / nodes;
  for (std::int32_t node = 0; node < nodes; ++node) {
    place(weights,
          of_node[node],
          shape.ranks / nodes,
          std::span(expert_at).subspan(node * slots_a_node, slots_a_node));
  }
  return expert_at;
}

}  // namespace shoal
