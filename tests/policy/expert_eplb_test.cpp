// The published balancer, against its own definition: scans where the product has heaps.
#include "actors/policy/expert_eplb.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>

#include "tests/policy/expert_cases.h"

using namespace shoal;

namespace {

std::vector<std::int32_t> scan_replicas(const std::vector<double>& weights, int replicas) {
  std::vector<std::int32_t> expert_of(weights.size());
  std::iota(expert_of.begin(), expert_of.end(), 0);
  std::vector<int> count(weights.size(), 1);
  while (std::ssize(expert_of) < replicas) {
    std::size_t most = 0;
    for (std::size_t e = 1; e < weights.size(); ++e) {
      most = weights[e] / count[e] > weights[most] / count[most] ? e : most;
    }
    expert_of.push_back(static_cast<std::int32_t>(most));
    ++count[most];
  }
  return expert_of;
}

std::vector<PackedItem> scan_packing(const std::vector<double>& weights, int packs) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return weights[a] > weights[b];
  });
  const int room = static_cast<int>(weights.size()) / packs;
  std::vector<double> level(packs, 0);
  std::vector<int> items(packs, 0);
  std::vector<PackedItem> packed(weights.size());
  for (const std::size_t item : order) {
    int least = -1;
    for (int pack = 0; pack < packs; ++pack) {
      if (items[pack] < room && (least < 0 || level[pack] < level[least])) {
        least = pack;
      }
    }
    packed[item] = {least, items[least]++};
    level[least] += weights[item];
  }
  return packed;
}

}  // namespace

TEST_CASE("replicas with a heap are those of a scan, equal weights too") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto weights = drawn_loads(96, seed);  // a hundred ranks: many are equal
    CHECK(replicate_greedily(weights, 130) == scan_replicas(weights, 130));
  }
  CHECK(replicate_greedily(std::vector<double>(8, 1.0), 12) ==
        scan_replicas(std::vector<double>(8, 1.0), 12));
}

TEST_CASE("packing with a heap is that of a scan, equal weights too") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto weights = drawn_loads(96, seed);
    CHECK(balanced_packing(weights, 8) == scan_packing(weights, 8));
    CHECK(balanced_packing(weights, 48) == scan_packing(weights, 48));
  }
}

TEST_CASE("one item a pack stays where it is") {
  const auto packed = balanced_packing(std::vector<double>{3, 1, 2}, 3);
  CHECK(packed == std::vector<PackedItem>{{0, 0}, {1, 0}, {2, 0}});
}

TEST_CASE("replicas go to the largest load a replica, then to the least loaded rank") {
  constexpr ExpertShape kShape{.experts = 3, .ranks = 2, .slots = 2};
  // 6 is halved; 3, 3, 2, 1 by size, ties to the lower number.
  CHECK(eplb_global(kShape, std::vector<double>{6, 2, 1}) == SlotExperts{0, 1, 0, 2});
}

TEST_CASE("groups stay on their node, and its replicas too") {
  constexpr ExpertShape kShape{.experts = 8, .ranks = 4, .slots = 3, .node_ranks = 2};
  const std::vector<double> weights{9, 9, 1, 1, 5, 5, 2, 2};
  const SlotExperts expert_at = eplb_hierarchical(kShape, weights, 4);
  // By weight: {0, 1} to node 0, {4, 5} to node 1, {6, 7} to node 1, {2, 3} to node 0.
  for (int slot = 0; slot < 12; ++slot) {
    const bool is_first = expert_at[slot] < 4;
    CHECK(is_first == (slot < 6));
  }
  CHECK(serves_all(kShape, expert_at));
}

TEST_CASE("without whole groups a node the global form is used") {
  constexpr ExpertShape kShape{.experts = 8, .ranks = 4, .slots = 3, .node_ranks = 2};
  const std::vector<double> weights{9, 9, 1, 1, 5, 5, 2, 2};
  CHECK(eplb_hierarchical(kShape, weights, 1) == eplb_global(kShape, weights));
  CHECK(eplb_hierarchical(kShape, weights, 0) == eplb_global(kShape, weights));
}
