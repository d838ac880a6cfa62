// The length class of a request and the instance it goes to.
#include "actors/policy/prefill_balancer.h"

#include <array>
#include <doctest/doctest.h>
#include <vector>

using namespace shoal;
using std::chrono::milliseconds;

TEST_CASE("a request's class follows its predicted work, bounds belonging to the longer class") {
  const PrefillBounds bounds = {milliseconds(20), milliseconds(100), milliseconds(1'000)};
  CHECK(prefill_class(Nanos{0}, bounds) == 0);
  CHECK(prefill_class(milliseconds(20) - Nanos{1}, bounds) == 0);
  CHECK(prefill_class(milliseconds(20), bounds) == 1);
  CHECK(prefill_class(milliseconds(100), bounds) == 2);
  CHECK(prefill_class(milliseconds(999), bounds) == 2);
  CHECK(prefill_class(milliseconds(1'000), bounds) == 3);
}

TEST_CASE("a request goes to the instance that finishes it first") {
  const std::array<PrefillInstance, 3> instances = {
      {{true, milliseconds(50), 0}, {true, milliseconds(10), 0}, {true, milliseconds(30), 0}}};
  const auto choice = pick_prefill_instance(instances, milliseconds(5), 4);
  REQUIRE(choice.has_value());
  CHECK(choice->instance == 1);
  CHECK(choice->finish == milliseconds(15));
}

TEST_CASE("an instance that is gone or has enough waiting is passed over") {
  std::array<PrefillInstance, 3> instances = {
      {{false, Nanos{0}, 0}, {true, Nanos{0}, 4}, {true, milliseconds(30), 3}}};
  CHECK(pick_prefill_instance(instances, Nanos{1}, 4)->instance == 2);
  instances[2].waiting = 4;
  CHECK_FALSE(pick_prefill_instance(instances, Nanos{1}, 4).has_value());
}

TEST_CASE("no instance is a favourite among equals, and a request always gets the same one") {
  constexpr int kRequests = 3'000;
  const std::array<PrefillInstance, 3> instances = {
      {{true, milliseconds(1), 0}, {true, milliseconds(1), 0}, {true, milliseconds(1), 0}}};
  std::array<int, 3> taken{};
  for (std::uint64_t request = 0; request < kRequests; ++request) {
    const auto choice = pick_prefill_instance(instances, Nanos{1}, 1, request);
    REQUIRE(choice.has_value());
    CHECK(pick_prefill_instance(instances, Nanos{1}, 1, request)->instance == choice->instance);
    ++taken[choice->instance];
  }
  for (const int count : taken) {
    CHECK(count > kRequests / 3 - 150);  // five deviations of a fair draw: 5 * sqrt(3000 * 2/9)
  }
}

TEST_CASE("an instance that failed a moment ago is taken only where there is no other") {
  const PrefillInstance failed{.alive = true, .backlog = Nanos{0}, .avoided = true};
  const PrefillInstance busy{.alive = true, .backlog = Nanos{1'000'000'000}};
  CHECK(pick_prefill_instance(std::vector{failed, busy}, Nanos{1}, 4)->instance == 1);
  CHECK(pick_prefill_instance(std::vector{failed}, Nanos{1}, 4)->instance == 0);
}

TEST_CASE("a request goes where its KV fits, and nowhere when no instance has the memory") {
  const PrefillInstance small{.alive = true, .holds = false};
  const PrefillInstance busy{.alive = true, .backlog = Nanos{1'000'000'000}};
  CHECK(pick_prefill_instance(std::vector{small, busy}, Nanos{1}, 4)->instance == 1);
  CHECK(fits_nowhere(std::vector{small}));
  CHECK_FALSE(fits_nowhere(std::vector{small, busy}));
  CHECK_FALSE(fits_nowhere({}));
}
