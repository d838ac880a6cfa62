// The index against what it promises, by hand and against a plain model of it.
#include "transport/block_index.h"

#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <map>
#include <random>
#include <set>
#include <vector>

using namespace shoal;
using namespace shoal::transport;

namespace {

constexpr WallMillis kNow = 1'700'000'000'000;
constexpr WallMillis kHour = 3'600'000;

BlockKey key_of(std::uint64_t id) {
  std::mt19937_64 words(id);
  BlockKey key;
  for (std::size_t at = 0; at < key.bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = words();
    std::memcpy(key.bytes.data() + at, &word, sizeof word);
  }
  return key;
}

BlockPolicy lru() {
  return {.worth = [](const BlockUse& use, WallMillis) { return use.last_use; }, .seen = {}};
}

BlockIndex::Written written(std::uint64_t id, std::uint64_t parent, std::uint32_t number) {
  return {.key = key_of(id),
          .parent = key_of(parent),
          .number = number,
          .info = {.crc = static_cast<std::uint32_t>(id)},
          .place = {.segment = 1, .page = static_cast<std::uint32_t>(id), .pages = 28}};
}

// Blocks first, first + 1, ... behind each other, the first one behind `parent`.
void write_chain(BlockIndex& index,
                 std::uint64_t first,
                 std::uint32_t count,
                 WallMillis now,
                 std::uint64_t parent = 0,
                 std::uint32_t number = 0) {
  for (std::uint32_t i = 0; i < count; ++i) {
    REQUIRE(index.insert(written(first + i, i == 0 ? parent : first + i - 1, number + i), now));
  }
}

std::vector<BlockKey> keys(std::uint64_t first, std::uint32_t count) {
  std::vector<BlockKey> keys;
  for (std::uint32_t i = 0; i < count; ++i) {
    keys.push_back(key_of(first + i));
  }
  return keys;
}

std::vector<std::uint32_t> pages(const std::vector<Forgotten>& places) {
  std::vector<std::uint32_t> pages;
  for (const BlockPlace& place : places) {
    pages.push_back(place.page);
  }
  return pages;
}

using Pages = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("a block is found as it was written, until it is erased") {
  BlockIndex index(lru(), kNow);
  BlockIndex::Written block = written(7, 0, 0);
  block.info = {.crc = 99, .provenance = Provenance::kBounded, .ttl = TtlClass::kPinned};
  CHECK(index.insert(block, kNow));
  const auto found = index.find(key_of(7));
  REQUIRE(found);
  CHECK(found->info.crc == 99);
  CHECK(found->info.provenance == Provenance::kBounded);
  CHECK(found->info.ttl == TtlClass::kPinned);
  CHECK(found->place.segment == 1);
  CHECK(found->place.page == 7);
  CHECK(found->place.pages == 28);
  CHECK(index.size() == 1);
  CHECK(index.erase(key_of(7))->page == 7);
  CHECK_FALSE(index.find(key_of(7)));
  CHECK_FALSE(index.erase(key_of(7)));
  CHECK(index.size() == 0);
}

TEST_CASE("a block that is visible is not written again, but may be replaced") {
  BlockIndex index(lru(), kNow);
  CHECK(index.insert(written(1, 0, 0), kNow));
  CHECK_FALSE(index.insert(written(1, 0, 0), kNow));
  CHECK(index.replace(key_of(1), {.crc = 5}, {.segment = 2, .page = 9, .pages = 1}));
  CHECK(index.find(key_of(1))->place.segment == 2);
  CHECK_FALSE(index.replace(key_of(2), {}, {}));
}

TEST_CASE("the longest hit ends before the first block that is not there, or not exact") {
  BlockIndex index(lru(), kNow);
  write_chain(index, 1, 100, kNow);
  CHECK(index.longest_hit(keys(1, 200), false) == 100);
  CHECK(index.longest_hit(keys(1, 60), false) == 60);
  CHECK(index.longest_hit(keys(500, 60), false) == 0);
  CHECK(index.longest_hit({}, false) == 0);
  for (std::uint64_t id = 41; id <= 100; ++id) {
    index.replace(key_of(id), {.provenance = Provenance::kBounded}, {});
  }
  CHECK(index.longest_hit(keys(1, 200), false) == 100);
  CHECK(index.longest_hit(keys(1, 200), true) == 40);
}

TEST_CASE("a thousand keys take ten look-ups") {
  for (std::size_t hits = 0; hits <= 1'000; hits += 37) {
    int looks = 0;
    CHECK(longest_hit(1'000, [&](std::size_t i) {
            ++looks;
            return i < hits;
          }) == hits);
    CHECK(looks <= 10);
  }
}

TEST_CASE("the block used longest ago goes first, and of a sequence the last one") {
  BlockIndex index(lru(), kNow);
  write_chain(index, 1, 3, kNow);
  write_chain(index, 11, 3, kNow + 1'000);
  index.touch(key_of(3), 0, kNow + 2'000);
  CHECK(pages(index.evict(4, kNow + 3'000)) == Pages{13, 12, 11, 3});
  CHECK(index.longest_hit(keys(1, 3), false) == 2);
}

TEST_CASE("a block is forgotten only after all blocks behind it") {
  BlockIndex index(lru(), kNow);
  write_chain(index, 1, 3, kNow);                  // 1 2 3
  write_chain(index, 11, 2, kNow + 5'000, 2, 2);   // 1 2 11 12
  CHECK(pages(index.evict(1, kNow)) == Pages{3});  // the older branch
  CHECK(pages(index.evict(9, kNow)) == Pages{12, 11, 2, 1});
  CHECK(index.size() == 0);
}

TEST_CASE("a prefix lives as long as the last block that was behind it") {
  BlockIndex index(lru(), kNow);
  write_chain(index, 1, 2, kNow);
  write_chain(index, 11, 1, kNow + 9'000, 2, 2);
  write_chain(index, 21, 1, kNow + 5'000);
  REQUIRE(index.erase(key_of(11)));
  CHECK(pages(index.evict(1, kNow + 9'000)) == Pages{21});
}

TEST_CASE("blocks may come in any order") {
  BlockIndex index(lru(), kNow);
  for (const std::uint32_t number : {3U, 1U, 4U, 0U, 2U}) {
    CHECK(index.insert(written(10 + number, 9 + number, number), kNow));
  }
  CHECK(index.size() == 5);
  CHECK(index.longest_hit(keys(10, 5), false) == 5);
  CHECK(pages(index.evict(5, kNow)) == Pages{14, 13, 12, 11, 10});
}

TEST_CASE("a block erased from the middle comes back to its place") {
  BlockIndex index(lru(), kNow);
  write_chain(index, 1, 4, kNow);
  CHECK(index.erase(key_of(2))->page == 2);
  CHECK(index.size() == 3);
  CHECK(index.insert(written(2, 1, 1), kNow + 1'000));
  CHECK(index.longest_hit(keys(1, 4), false) == 4);
  CHECK(pages(index.evict(4, kNow)) == Pages{4, 3, 2, 1});
}

TEST_CASE("a block erased from the middle leaves nothing when all behind it is gone") {
  BlockIndex index(lru(), kNow);
  write_chain(index, 1, 4, kNow);
  index.erase(key_of(2));
  CHECK(pages(index.evict(9, kNow)) == Pages{4, 3, 1});
  CHECK(index.size() == 0);
  CHECK(index.insert(written(2, 1, 9), kNow));  // nothing remembers its number
}

TEST_CASE("records that name themselves or a circle as parents end no walk") {
  BlockIndex index(lru(), kNow);
  index.insert(written(1, 1, 5), kNow);
  index.insert(written(2, 3, 5), kNow);
  index.insert(written(3, 2, 5), kNow);
  index.touch(key_of(1), 0, kNow + 1'000);
  index.touch(key_of(3), 0, kNow + 1'000);
  CHECK(index.evict(9, kNow).size() + static_cast<std::size_t>(index.size()) >= 2);
}

TEST_CASE("a use counts for every block before, and says how long each had waited") {
  std::map<std::uint32_t, BlockUse> seen;
  BlockPolicy policy = lru();
  policy.seen = [&seen](std::uint64_t, const BlockUse& use, bool) {
    seen[use.number] = use;
    return use;
  };
  BlockIndex index(policy, kNow);
  write_chain(index, 1, 3, kNow);
  index.touch(key_of(3), 20, kNow + 64'000);
  write_chain(index, 4, 1, kNow + 65'000, 3, 3);
  CHECK(seen[0].uses == 1);
  CHECK(seen[2].uses == 1);
  CHECK(seen[2].turn == 16);             // to a power of two
  CHECK(seen[2].idle_before == 64'000);  // 512 eighths of a second
  CHECK(seen[2].last_use == kNow + 64'000);
  CHECK(seen[3].uses == 0);
  CHECK(seen[3].idle_before == 64'000);  // of its sequence
}

TEST_CASE("a block's past is what the policy knows of it") {
  BlockPolicy policy = lru();
  std::vector<BlockUse> judged;
  policy.seen = [](std::uint64_t, BlockUse use, bool is_written) {
    use.uses = is_written ? 5 : use.uses;
    use.idle_before = 8'000;
    return use;
  };
  policy.worth = [&judged](const BlockUse& use, WallMillis) {
    judged.push_back(use);
    return std::int64_t{0};
  };
  BlockIndex index(policy, kNow);
  write_chain(index, 1, 1, kNow);
  index.evict(1, kNow);
  REQUIRE(judged.size() == 1);
  CHECK(judged[0].uses == 5);
  CHECK(judged[0].idle_before == 8'000);
  CHECK(judged[0].pages == 28);
}

TEST_CASE("leaves expire by their class, and what was before them by the time they were used") {
  BlockIndex index(lru(), kNow);
  write_chain(index, 1, 2, kNow);
  BlockIndex::Written agent = written(11, 0, 0);
  agent.info.ttl = TtlClass::kAgent;
  index.insert(agent, kNow);
  const std::array<std::int64_t, kTtlClasses> hours{72, 168, 8'760};
  CHECK(index.expire(hours, 10, kNow + 72 * kHour).empty());
  CHECK(pages(index.expire(hours, 10, kNow + 73 * kHour)) == Pages{11});
  index.touch(key_of(2), 0, kNow + 100 * kHour);
  CHECK(index.expire(hours, 10, kNow + 169 * kHour).empty());
  CHECK(pages(index.expire(hours, 10, kNow + 269 * kHour)) == Pages{2, 1});
}

TEST_CASE("what is past its lifetime is not found, whether or not expiry has come to it") {
  BlockIndex index(lru(), kNow);
  write_chain(index, 1, 3, kNow);
  const std::array<std::int64_t, kTtlClasses> hours{72, 168, 8'760};
  index.insert(written(4, 3, 3), kNow + 100 * kHour);
  const auto found = [&](std::uint64_t id, WallMillis now) {
    return index.find_live(key_of(id), hours, now).has_value();
  };
  CHECK(found(1, kNow + 200 * kHour));  // before one that was written later
  CHECK_FALSE(found(1, kNow + 269 * kHour));
  index.hold(key_of(2), kNow + 300 * kHour, kNow);
  CHECK(found(1, kNow + 269 * kHour));
  CHECK_FALSE(found(3, kNow + 269 * kHour));
  CHECK_FALSE(found(1, kNow + 301 * kHour));
  index.renew(key_of(3), kNow + 250 * kHour);
  CHECK(found(1, kNow + 301 * kHour));
  CHECK_FALSE(found(4, kNow + 301 * kHour));
  CHECK(index.find(key_of(4)).has_value());
}

TEST_CASE("expiry looks at as many leaves as asked for and gets around") {
  BlockIndex index(lru(), kNow);
  for (std::uint64_t id = 1; id <= 100; ++id) {
    index.insert(written(id, 0, 0), kNow);
  }
  std::size_t expired = 0;
  for (int call = 0; call < 40 && index.size() > 0; ++call) {
    const std::size_t now = index.expire({1, 1, 1}, 10, kNow + 2 * kHour).size();
    CHECK(now <= 10);
    expired += now;
  }
  CHECK(expired == 100);
}

TEST_CASE("a segment that is dropped takes its blocks along and leaves the others") {
  BlockIndex index(lru(), kNow);
  write_chain(index, 1, 6, kNow);
  for (const std::uint64_t id : {2U, 3U, 6U}) {
    index.replace(key_of(id), {}, {.segment = 8, .page = static_cast<std::uint32_t>(id)});
  }
  CHECK(index.drop_segment(8) == 3);
  CHECK(index.size() == 3);
  CHECK_FALSE(index.find(key_of(3)));
  CHECK(index.find(key_of(5)));
  CHECK(index.drop_segment(8) == 0);
  CHECK(index.drop_segment(1) == 3);
  CHECK(index.size() == 0);
}

TEST_CASE("of more leaves than it looks at, those evicted are among the least worth") {
  BlockIndex index(lru(), kNow);
  constexpr std::uint64_t kBlocks = 5 * BlockIndex::kLooks;
  for (std::uint64_t id = 1; id <= kBlocks; ++id) {
    index.insert(written(id, 0, 0), kNow + static_cast<WallMillis>(id) * 1'000);
  }
  const auto evicted = pages(index.evict(1'000, kNow));
  CHECK(evicted.size() == 1'000);
  CHECK(std::set<std::uint32_t>(evicted.begin(), evicted.end()).size() == 1'000);
  // Exactly would be 1,000; an eighth of a sample is its lowest eighth.
  CHECK(*std::max_element(evicted.begin(), evicted.end()) < kBlocks / 5);
}

TEST_CASE("at most 64 bytes a block, and a chunk of entries") {
  constexpr std::int64_t kChunk = 1'024 * 48;
  BlockIndex index(lru(), kNow);
  for (std::uint64_t id = 1; id <= 100'000; ++id) {
    index.insert(written(id, 0, 0), kNow);  // every one a leaf: the most there is
    if (id >= 10'000 && id % 5'000 == 0) {
      CHECK(index.bytes().value <= 64 * static_cast<std::int64_t>(id) + kChunk);
    }
  }
}

namespace {

// What the index should say, by sets and maps; ids are unique whole prefixes.
struct Model {
  struct Block {
    std::uint64_t parent = 0;
    std::uint32_t number = 0;
  };

  std::map<std::uint64_t, Block> visible;

  bool is_leaf(std::uint64_t id) const {
    return std::none_of(
        visible.begin(), visible.end(), [id](const auto& b) { return b.second.parent == id; });
  }
};

void check_same(const BlockIndex& index, const Model& model, std::uint64_t ids) {
  CHECK(index.size() == static_cast<std::int64_t>(model.visible.size()));
  for (std::uint64_t id = 1; id <= ids; ++id) {
    REQUIRE(index.find(key_of(id)).has_value() == model.visible.contains(id));
  }
}

}  // namespace

TEST_CASE("random writing, use and eviction match a plain model") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    BlockIndex index(lru(), kNow);
    Model model;
    constexpr std::uint64_t kIds = 300;
    for (int step = 0; step < 600; ++step) {
      const WallMillis now = kNow + step * 1'000;
      const std::uint64_t id = 1 + random() % kIds;
      // Block id of a fixed tree: its parent has a third of its number.
      const std::uint64_t parent = id / 3;
      std::uint32_t number = 0;
      for (std::uint64_t up = parent; up > 0; up /= 3) {
        ++number;
      }
      const bool has_parent = parent == 0 || model.visible.contains(parent);
      if (random() % 4 != 0 && has_parent) {
        CHECK(index.insert(written(id, parent, number), now) != model.visible.contains(id));
        model.visible.try_emplace(id, Model::Block{parent, number});
      } else if (random() % 2 == 0) {
        index.touch(key_of(id), 1, now);
      } else {
        for (const std::uint32_t page : pages(index.evict(3, now))) {
          CHECK(model.is_leaf(page));
          model.visible.erase(page);
        }
      }
    }
    check_same(index, model, kIds);
  }
}

TEST_CASE("random erasure never breaks what is left") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    BlockIndex index(lru(), kNow);
    Model model;
    constexpr std::uint64_t kIds = 200;
    for (int step = 0; step < 1'000; ++step) {
      const std::uint64_t id = 1 + random() % kIds;
      std::uint32_t number = 0;
      for (std::uint64_t up = id / 3; up > 0; up /= 3) {
        ++number;
      }
      if (random() % 2 == 0) {
        CHECK(index.insert(written(id, id / 3, number), kNow) != model.visible.contains(id));
        model.visible.try_emplace(id);
      } else {
        CHECK(index.erase(key_of(id)).has_value() == (model.visible.erase(id) > 0));
      }
    }
    check_same(index, model, kIds);
    CHECK(index.evict(1'000, kNow).size() == model.visible.size());
    CHECK(index.size() == 0);
  }
}
