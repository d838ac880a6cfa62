// What a block is worth: what is learned of its like, what it saves, what it takes; and LRU until
// that is the better way.
#include "actors/policy/kv_worth.h"

#include <doctest/doctest.h>

using namespace shoal;

namespace {

constexpr WallMillis kNow = 1'700'000'000'000;
constexpr WallMillis kSecond = 1'000;
constexpr WallMillis kPause = 60 * kSecond;

// 1 us a row, and as much again for a block's rows after 1,000 blocks.
KvWorth store_of(std::int64_t blocks) {
  return KvWorth(CostModel({.row_ps = 1'000'000, .pair_fs = 7'812}), {.blocks = blocks});
}

BlockUse used_at(WallMillis time, std::uint32_t number = 0) {
  return {.number = number, .last_use = time};
}

// Of small stores every block is in the sample.
constexpr std::uint64_t name(std::uint64_t i) {
  return i * 0x9E3779B97F4A7C15ULL;
}

// One of those that come back every minute, by its last use.
BlockUse regular_at(WallMillis time) {
  return {.uses = 8, .last_use = time, .idle_before = kPause};
}

// Twenty of them, among ten others a second that never do. Returns when it ended.
WallMillis live(KvWorth& worth, int seconds) {
  std::uint64_t last = 1'000;
  WallMillis now = kNow;
  for (int second = 0; second < seconds; ++second, now += kSecond) {
    for (int i = 0; i < 10; ++i) {
      worth.seen(name(++last), used_at(now), true);
    }
    if (second % 3 == 0) {
      const auto regular = static_cast<std::uint64_t>(1 + second / 3 % 20);
      worth.seen(name(regular), used_at(now), true);
    }
  }
  return now;
}

}  // namespace

TEST_CASE("where nothing was learned, the block used longest ago goes first") {
  const KvWorth worth = store_of(100);
  BlockUse used_often = used_at(kNow - kSecond);
  used_often.uses = 31;
  CHECK_FALSE(worth.is_ahead());
  CHECK(worth.worth(used_often, kNow) < worth.worth(used_at(kNow), kNow));
}

TEST_CASE("those who come back are kept over those who do not, once that is learned") {
  KvWorth worth = store_of(100);  // LRU: ten seconds of the others
  const WallMillis end = live(worth, 3'000);
  REQUIRE(worth.is_ahead());
  const std::int64_t other = worth.worth(used_at(end - kSecond), end);
  CHECK(worth.worth(regular_at(end - 45 * kSecond), end) > 10 * other);
  CHECK(worth.worth(regular_at(end - 45 * kSecond), end) >
        worth.worth(regular_at(end - 5 * kSecond), end));  // it comes sooner
  CHECK(worth.worth(regular_at(end - 45 * kSecond), end) >
        10 * worth.worth(regular_at(end - 600 * kSecond), end));  // it does not come any more
}

TEST_CASE("where all fit, what is learned is never ahead of LRU") {
  KvWorth worth = store_of(100'000);
  live(worth, 3'000);
  CHECK_FALSE(worth.is_ahead());
}

TEST_CASE("a block that costs more to compute again is worth more, one that takes more less") {
  KvWorth worth = store_of(100);
  const WallMillis end = live(worth, 3'000);
  REQUIRE(worth.is_ahead());
  BlockUse use = regular_at(end - 30 * kSecond);
  const std::int64_t first = worth.worth(use, end);
  use.number = 1'000;
  CHECK(worth.worth(use, end) == doctest::Approx(2 * first).epsilon(0.01));
  use.number = 4'000'000;
  CHECK(worth.worth(use, end) > 2 * first);  // no overflow
  use.number = 0;
  use.pages = 4;
  CHECK(worth.worth(use, end) == doctest::Approx(first / 4).epsilon(0.01));
}

TEST_CASE("pinned blocks go last, and among them the least worth first") {
  KvWorth young = store_of(100);
  KvWorth old = store_of(100);
  const WallMillis end = live(old, 3'000);
  for (const KvWorth* worth : {&young, &old}) {
    BlockUse pinned = used_at(end - 1'000'000 * kSecond);
    pinned.ttl = TtlClass::kPinned;
    BlockUse pinned_later = pinned;
    pinned_later.last_use = end;
    CHECK(worth->worth(pinned, end) > worth->worth(used_at(end, 4'000'000), end));
    CHECK(worth->worth(pinned_later, end) > worth->worth(pinned, end));
  }
}

TEST_CASE("a block that comes back gets its past back") {
  KvWorth worth = store_of(1'000);
  CHECK(worth.seen(name(1), used_at(kNow), true).uses == 0);
  BlockUse again = used_at(kNow + 60 * kSecond);
  again.uses = 1;
  again.idle_before = 60 * kSecond;
  CHECK(worth.seen(name(1), again, false).uses == 1);
  // Forgotten, and written once more.
  const BlockUse back = worth.seen(name(1), used_at(kNow + 90 * kSecond), true);
  CHECK(back.uses == 2);
  CHECK(back.idle_before == 30 * kSecond);
}

TEST_CASE("a new block has no uses, whatever is before it") {
  KvWorth worth = store_of(1'000);
  BlockUse use = used_at(kNow);
  use.uses = 7;
  CHECK(worth.seen(name(2), use, true).uses == 0);
}

TEST_CASE("blocks outside the sample stay as the index knows them") {
  KvWorth worth = store_of(100'000'000);
  BlockUse use = used_at(kNow);
  use.uses = 7;
  CHECK(worth.seen(1, use, true).uses == 7);
}

TEST_CASE("the same blocks, the same worth") {
  KvWorth one = store_of(100);
  KvWorth other = store_of(100);
  const WallMillis end = live(one, 1'000);
  live(other, 1'000);
  CHECK(one.is_ahead() == other.is_ahead());
  for (WallMillis age = 0; age < 1'000 * kSecond; age += 7 * kSecond) {
    CHECK(one.worth(regular_at(end - age), end) == other.worth(regular_at(end - age), end));
  }
}

TEST_CASE("memory is bounded by what is stored") {
  const auto bytes = [](const StoreRoom& room) {
    KvWorth worth(CostModel({.row_ps = 1}), room);
    BlockUse first = used_at(kNow);
    first.pages = 28;
    worth.seen(name(1), first, true);
    return worth.bytes().value;
  };
  CHECK(bytes({.blocks = 1}) < 4 << 20);
  CHECK(bytes({.blocks = 10'000'000}) < 5 * 10'000'000);
  CHECK(bytes({.pages = 28 * 10'000'000LL}) == bytes({.blocks = 10'000'000}));
}
