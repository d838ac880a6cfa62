// What health and the log say of damaged blocks.
#include "actors/kv_damage.h"

#include <doctest/doctest.h>

using namespace shoal;
using namespace std::chrono_literals;

namespace {

transport::BlockStore::Use met(std::int64_t corrupt, std::int64_t broken = 0) {
  transport::BlockStore::Use use;
  use.corrupt = corrupt;
  use.broken = broken;
  return use;
}

}  // namespace

TEST_CASE("health tells of damage for a minute after the last that was met, and not again") {
  KvDamage damage;
  const Instant start = Instant{} + 100s;
  damage.see(met(0), start);
  CHECK(damage.trouble(start).empty());
  damage.see(met(1), start);
  CHECK(damage.trouble(start).find("1 times") != std::string::npos);
  damage.see(met(3), start + 30s);
  CHECK(damage.trouble(start + 89s).find("3 times") != std::string::npos);
  damage.see(met(3), start + 90s);
  CHECK(damage.trouble(start + 90s).empty());
}

TEST_CASE("health takes an index page that was torn with its writer for no damage") {
  KvDamage damage;
  const Instant start = Instant{} + 100s;
  CHECK(damage.see(met(0, 2), start));
  CHECK(damage.trouble(start).empty());
}

TEST_CASE("the log tells of damage once in a while, and of all of it") {
  KvDamage damage;
  const Instant start = Instant{} + 100s;
  CHECK(damage.see(met(1), start));
  CHECK(!damage.see(met(2), start + 1s));
  CHECK(damage.see(met(2), start + 6s));
  CHECK(!damage.see(met(2), start + 20s));
}
