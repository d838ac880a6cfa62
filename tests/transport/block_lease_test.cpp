// Leases on blocks: what somebody relies on stays, for a time.
#include <doctest/doctest.h>
#include <vector>

#include "transport/block_index.h"

using namespace shoal;
using namespace shoal::transport;

namespace {

constexpr WallMillis kNow = 1'700'000'000'000;
constexpr WallMillis kHour = 3'600'000;

BlockKey key(int sequence, int number) {
  BlockKey made;
  made.bytes[0] = std::byte(sequence);
  made.bytes[1] = std::byte(number + 1);
  return made;
}

struct Bed {
  BlockIndex index{
      {.worth = [](const BlockUse& use, WallMillis) { return use.last_use; }, .seen = {}}, kNow};

  // Blocks 0 .. count - 1 behind each other.
  void write(int sequence, int count, WallMillis now) {
    for (int n = 0; n < count; ++n) {
      REQUIRE(index.insert({.key = key(sequence, n),
                            .parent = n == 0 ? BlockKey{} : key(sequence, n - 1),
                            .number = static_cast<std::uint32_t>(n),
                            .info = {},
                            .place = {.segment = 1, .page = 1, .pages = 1}},
                           now));
    }
  }

  bool has(int sequence, int number) const { return index.find(key(sequence, number)).has_value(); }
};

}  // namespace

TEST_CASE("a held block and all before it outlive newer ones, what is behind it does not") {
  Bed bed;
  bed.write(1, 4, kNow);
  bed.write(2, 4, kNow + 1000);
  bed.index.hold(key(1, 1), kNow + kHour, kNow);
  CHECK(bed.index.evict(6, kNow + 2000).size() == 6);
  CHECK(bed.has(1, 1));
  CHECK(bed.has(1, 0));
  CHECK_FALSE(bed.has(1, 2));
  CHECK_FALSE(bed.has(2, 0));
}

TEST_CASE("when nothing else is left, held blocks go") {
  Bed bed;
  bed.write(1, 4, kNow);
  bed.index.hold(key(1, 3), kNow + kHour, kNow);
  CHECK(bed.index.evict(3, kNow).size() == 3);
  CHECK(bed.has(1, 0));
  CHECK(bed.index.held() == 0);
}

TEST_CASE("a lease ends with its time, or with the last release") {
  Bed bed;
  bed.write(1, 1, kNow);
  bed.write(2, 1, kNow + 1000);
  bed.write(3, 1, kNow + 2000);
  bed.index.hold(key(1, 0), kNow + kHour, kNow);
  bed.index.hold(key(2, 0), kNow + 10 * kHour, kNow);
  bed.index.hold(key(2, 0), kNow + 5 * kHour, kNow);
  bed.index.release(key(2, 0));
  bed.index.evict(1, kNow + 2 * kHour);
  CHECK_FALSE(bed.has(1, 0));
  bed.index.evict(1, kNow + 2 * kHour);
  CHECK_FALSE(bed.has(3, 0));
  bed.index.release(key(2, 0));
  CHECK(bed.index.held() == 0);
}

TEST_CASE("a held block does not expire") {
  Bed bed;
  bed.write(1, 1, kNow);
  bed.index.hold(key(1, 0), kNow + 3 * kHour, kNow);
  CHECK(bed.index.expire({1, 1, 1}, 10, kNow + 2 * kHour).empty());
  CHECK(bed.index.expire({1, 1, 1}, 10, kNow + 4 * kHour).size() == 1);
}

TEST_CASE("what is not there is not held, and a block that comes again is another") {
  Bed bed;
  bed.index.hold(key(1, 0), kNow + kHour, kNow);
  CHECK(bed.index.held() == 0);
  bed.write(1, 1, kNow);
  bed.index.hold(key(1, 0), kNow + kHour, kNow);
  bed.index.erase(key(1, 0));
  bed.write(1, 1, kNow + 1);
  CHECK(bed.index.held() == 0);
}
