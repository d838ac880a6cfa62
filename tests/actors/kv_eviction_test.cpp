// Stores that are full, as servers open them: who comes back is kept, though LRU would not.
#include "actors/kv_eviction.h"

#include <doctest/doctest.h>
#include <vector>

#include "tests/transport/file_bed.h"
#include "transport/memory/memory_blocks.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using namespace std::chrono_literals;
using transport::BlockPolicy;
using transport::BlockStore;
using transport::BlockStoreParams;

constexpr ChainShape kShape{.blocks = 8};
constexpr std::int64_t kChains = 80;  // that are visible at once
constexpr int kRegulars = 20;
constexpr int kSeconds = 600;

BlockPolicy learned() {
  return evict_by_worth(CostModel({.row_ps = 1'000}), {.blocks = 8 * kChains});
}

// Twenty come back every minute, two others a second never do: LRU remembers 34 seconds. How many
// blocks the regulars found in the last five minutes, of 800.
template <typename Bed, typename Put>
std::size_t found(Bed& bed, BlockStore& store, const Put& put) {
  std::vector<BlockChain> regulars;
  for (std::uint64_t seed = 0; seed < kRegulars; ++seed) {
    regulars.push_back(make_chain(seed, kShape));
  }
  std::size_t found = 0;
  for (int second = 0; second < kSeconds; ++second, bed.pass(1s)) {
    for (const int other : {0, 1}) {
      put(make_chain(1'000 + static_cast<std::uint64_t>(2 * second + other), kShape));
    }
    if (second % 3 != 0) {
      continue;
    }
    const BlockChain& regular = regulars[static_cast<std::size_t>(second / 3 % kRegulars)];
    const std::size_t hit = longest_hit(store, regular.keys, false);
    found += second < kSeconds - 300 ? 0 : hit;
    if (hit > 0) {
      store.touch(regular.keys[hit - 1], static_cast<std::uint32_t>(8 - hit));
    }
    put(regular);
  }
  return found;
}

std::size_t found_in_files(BlockPolicy policy) {
  SimBed bed;
  BlockStoreParams params = bed.params(1);
  params.limits.bytes = Bytes(8 << 20);
  params.limits.blocks = 8 * kChains;
  params.policy = std::move(policy);
  const auto store = bed.open(params);
  return found(bed, *store, [&](const BlockChain& chain) { bed.put(*store, chain); });
}

std::size_t found_in_memory(BlockPolicy policy) {
  FileBed bed;
  BlockStoreParams params = block_params();
  params.wall = [&bed] { return bed.wall(); };
  params.limits.blocks = 8 * kChains;
  params.policy = std::move(policy);
  const auto store = transport::make_memory_blocks(params);
  return found(bed, *store, [&](const BlockChain& chain) { put(*store, chain); });
}

}  // namespace

TEST_CASE("a full file store keeps those who come back, though LRU would not") {
  CHECK(found_in_files(evict_by_last_use()) == 0);
  CHECK(found_in_files(learned()) > 600);
}

TEST_CASE("a full memory store keeps those who come back, though LRU would not") {
  CHECK(found_in_memory(evict_by_last_use()) == 0);
  CHECK(found_in_memory(learned()) > 600);
}
