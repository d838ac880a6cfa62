// Which images are encoded, which are kept, and the ceilings.
#include "actors/policy/image_cache.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <set>

#include "actors/policy/draw.h"

using namespace shoal;
using Found = ImageCache::Found;

namespace {

ImageKey key_of(std::uint64_t number) {
  ImageKey key;
  for (int byte = 0; byte < 8; ++byte) {
    key.bytes[static_cast<std::size_t>(byte)] = std::byte(number >> (8 * byte));
  }
  return key;
}

}  // namespace

TEST_CASE("an image is encoded once: the second one waits for it, later ones find it") {
  ImageCache cache({.items = 4, .bytes = Bytes{100}, .encoding = 4});
  CHECK(cache.look_up(key_of(1)) == Found::kMissing);
  CHECK(cache.look_up(key_of(1)) == Found::kEncoding);
  CHECK(cache.encoded(key_of(1), Bytes{10}).empty());
  CHECK(cache.look_up(key_of(1)) == Found::kReady);
}

TEST_CASE("an image whose encoding failed is encoded by the next one that needs it") {
  ImageCache cache({.items = 4, .bytes = Bytes{100}, .encoding = 4});
  CHECK(cache.look_up(key_of(1)) == Found::kMissing);
  cache.failed(key_of(1));
  CHECK(cache.look_up(key_of(1)) == Found::kMissing);
}

TEST_CASE("the embedding used longest ago goes first") {
  ImageCache cache({.items = 2, .bytes = Bytes{100}, .encoding = 4});
  cache.encoded(key_of(1), Bytes{10});
  cache.encoded(key_of(2), Bytes{10});
  CHECK(cache.look_up(key_of(1)) == Found::kReady);
  CHECK(cache.encoded(key_of(3), Bytes{10}) == std::vector{key_of(2)});
}

TEST_CASE("an embedding larger than the cache is not kept and takes nothing else's place") {
  ImageCache cache({.items = 2, .bytes = Bytes{100}, .encoding = 4});
  cache.encoded(key_of(1), Bytes{10});
  CHECK(cache.encoded(key_of(2), Bytes{101}) == std::vector{key_of(2)});
  CHECK(cache.look_up(key_of(1)) == Found::kReady);
  ImageCache none({});
  CHECK(none.look_up(key_of(1)) == Found::kMissing);
  CHECK(none.encoded(key_of(1), Bytes{0}) == std::vector{key_of(1)});
}

TEST_CASE("an image cache stays within its ceilings and says all that goes") {
  ImageCache cache({.items = 20, .bytes = Bytes{1'000}, .encoding = 5});
  Draw draw(3);
  std::set<ImageKey> kept;
  for (int step = 0; step < 5'000; ++step) {
    const ImageKey key = key_of(draw.below(60));
    const Found found = cache.look_up(key);
    REQUIRE((found == Found::kReady) == kept.contains(key));
    if (found == Found::kMissing && draw.below(3) > 0) {
      kept.insert(key);
      for (const ImageKey& gone :
           cache.encoded(key, Bytes{static_cast<std::int64_t>(draw.below(200))})) {
        REQUIRE(kept.erase(gone) == 1);
      }
    } else if (found == Found::kEncoding && draw.below(2) > 0) {
      cache.failed(key);
    }
    REQUIRE(cache.items() == std::ssize(kept));
    REQUIRE(cache.items() <= 20);
    REQUIRE(cache.bytes() <= Bytes{1'000});
    REQUIRE(cache.encoding() <= 5);
  }
}
