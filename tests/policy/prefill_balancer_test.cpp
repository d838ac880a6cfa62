// The length class of a request, when its first token is predicted, and the instance it goes to.
#include <array>
#include <doctest/doctest.h>
#include <vector>

#include "actors/policy/prefill_policies.h"

using namespace shoal;
using std::chrono::milliseconds;

namespace {

PrefillNeed need(Nanos work, int length_class = 0, std::uint64_t tie = 0) {
  return {.work = work,
          .length_class = length_class,
          .quota = milliseconds(60),
          .waiting_limit = 4,
          .tie = tie};
}

std::optional<PrefillChoice> pick(std::span<const PrefillInstance> instances,
                                  const PrefillNeed& request) {
  return find_prefill_policy("first_token")->make(1)->pick(instances, request);
}

PrefillInstance queued(Nanos work, int length_class = 0) {
  PrefillInstance instance{.alive = true};
  instance.queued[static_cast<std::size_t>(length_class)] = work;
  return instance;
}

std::vector<PrefillRankLoad> begun(std::initializer_list<int> ms) {
  std::vector<PrefillRankLoad> ranks;
  for (const int work : ms) {
    ranks.push_back({1, 100, milliseconds(work)});
  }
  return ranks;
}

}  // namespace

TEST_CASE("a request's class follows its predicted work, bounds belonging to the longer class") {
  const PrefillBounds bounds = {milliseconds(20), milliseconds(100), milliseconds(1'000)};
  CHECK(prefill_class(Nanos{0}, bounds) == 0);
  CHECK(prefill_class(milliseconds(20) - Nanos{1}, bounds) == 0);
  CHECK(prefill_class(milliseconds(20), bounds) == 1);
  CHECK(prefill_class(milliseconds(100), bounds) == 2);
  CHECK(prefill_class(milliseconds(999), bounds) == 2);
  CHECK(prefill_class(milliseconds(1'000), bounds) == 3);
}

TEST_CASE("a prefill on an idle instance takes its own work, behind the running step") {
  PrefillInstance instance{.alive = true};
  CHECK(predict_first_token(instance, need(milliseconds(5))) == milliseconds(5));
  instance.step_left = milliseconds(7);
  CHECK(predict_first_token(instance, need(milliseconds(5))) == milliseconds(12));
}

TEST_CASE("a long prompt waits for no rank while one is free, however much the others have") {
  const auto ranks = begun({1'000, 1'000, 0, 1'000});
  const PrefillInstance instance{.alive = true, .ranks = ranks};
  CHECK(predict_first_token(instance, need(milliseconds(500), 2)) == milliseconds(500));
}

TEST_CASE("what is queued fills the ranks from the emptiest up to a level") {
  const auto ranks = begun({100, 40, 20, 0});
  PrefillInstance instance = queued(milliseconds(60), 2);
  instance.ranks = ranks;
  // 60 over 0, 20 and 40 makes 40.
  CHECK(predict_first_token(instance, need(milliseconds(500), 2)) == milliseconds(540));
}

TEST_CASE("of other classes no more is ahead than of the request's own") {
  // 5 ms of its own share the rank with 5 of the long ones; the step is as long as the quota.
  CHECK(predict_first_token(queued(milliseconds(9'000), 3), need(milliseconds(5))) ==
        milliseconds(5 + 60));
  CHECK(predict_first_token(queued(milliseconds(9'000), 0), need(milliseconds(5))) ==
        milliseconds(9'000 + 60));
}

TEST_CASE("a request goes to the instance with the earliest first token") {
  const std::array instances = {
      queued(milliseconds(50)), queued(milliseconds(10)), queued(milliseconds(30))};
  const auto choice = pick(instances, need(milliseconds(15)));
  REQUIRE(choice.has_value());
  CHECK(choice->instance == 1);
  CHECK(choice->finish == milliseconds(25));
}

TEST_CASE("an instance that is gone or has enough waiting is passed over") {
  std::array<PrefillInstance, 3> instances;
  instances[1].alive = true;
  instances[1].waiting = 4;
  instances[2] = queued(milliseconds(30));
  instances[2].waiting = 3;
  CHECK(pick(instances, need(Nanos{1}))->instance == 2);
  instances[2].waiting = 4;
  CHECK_FALSE(pick(instances, need(Nanos{1})).has_value());
}

TEST_CASE("no instance is a favourite among equals, and a request always gets the same one") {
  constexpr int kRequests = 3'000;
  const std::vector<PrefillInstance> instances(3, queued(milliseconds(1)));
  std::array<int, 3> taken{};
  for (std::uint64_t request = 0; request < kRequests; ++request) {
    const auto choice = pick(instances, need(Nanos{1}, 0, request));
    REQUIRE(choice.has_value());
    CHECK(pick(instances, need(Nanos{1}, 0, request))->instance == choice->instance);
    ++taken[choice->instance];
  }
  for (const int count : taken) {
    CHECK(count > kRequests / 3 - 150);  // five deviations of a fair draw: 5 * sqrt(3000 * 2/9)
  }
}

TEST_CASE("an instance that failed a moment ago is taken only where there is no other") {
  PrefillInstance failed{.alive = true};
  failed.avoided = true;
  const PrefillInstance busy = queued(milliseconds(1'000));
  CHECK(pick(std::vector{failed, busy}, need(Nanos{1}))->instance == 1);
  CHECK(pick(std::vector{failed}, need(Nanos{1}))->instance == 0);
}

TEST_CASE("a request goes where its KV fits, and nowhere when no instance has the memory") {
  const PrefillInstance small{.alive = true, .holds = false};
  const PrefillInstance busy = queued(milliseconds(1'000));
  CHECK(pick(std::vector{small, busy}, need(Nanos{1}))->instance == 1);
  CHECK(fits_nowhere(std::vector{small}));
  CHECK_FALSE(fits_nowhere(std::vector{small, busy}));
  CHECK_FALSE(fits_nowhere({}));
}

namespace {

PrefillInstance known(Nanos work, std::int64_t late_ppm = 0, std::int64_t steps = 1'000) {
  PrefillInstance instance = queued(work);
  instance.late_ppm = late_ppm;
  instance.steps = steps;
  return instance;
}

}  // namespace

TEST_CASE("an instance's own price of a request counts before the one that all share") {
  PrefillInstance instance{.alive = true, .work = milliseconds(50)};
  CHECK(predict_first_token(instance, need(milliseconds(5))) == milliseconds(50));
}

TEST_CASE("an instance has a price of its own where it is known and far from what all say") {
  CHECK(price_apart(milliseconds(12), milliseconds(10), 1'000) == std::nullopt);
  CHECK(price_apart(milliseconds(8), milliseconds(10), 1'000) == std::nullopt);
  CHECK(price_apart(milliseconds(13), milliseconds(10), 1'000) == milliseconds(13));
  CHECK(price_apart(milliseconds(1'000), milliseconds(10), 1'000) == milliseconds(1'000));
  CHECK(price_apart(milliseconds(7), milliseconds(10), 1'000) == milliseconds(7));
  CHECK(price_apart(milliseconds(1'000), milliseconds(10), 3) == std::nullopt);
}

TEST_CASE("the latest first token is the best instance's, behind what waits, with its margin") {
  std::vector<PrefillInstance> instances = {known(milliseconds(100)),
                                            known(milliseconds(40), 500'000)};
  // Behind 40 ms, with the longest of them in its step, half as long again.
  CHECK(latest_first_token(instances, need(milliseconds(5)), Nanos{0}) == milliseconds(120));
  CHECK(latest_first_token(instances, need(milliseconds(5)), milliseconds(100)) ==
        milliseconds(260));
  instances[0].holds = false;
  CHECK(latest_first_token(instances, need(milliseconds(5)), milliseconds(100)) ==
        milliseconds(300));
}

TEST_CASE("no latest first token is told while an instance that could take it knows little") {
  std::vector<PrefillInstance> instances = {known(milliseconds(100)),
                                            known(milliseconds(100), 0, 3)};
  CHECK(latest_first_token(instances, need(milliseconds(5)), Nanos{0}) == std::nullopt);
  instances[1].alive = false;
  CHECK(latest_first_token(instances, need(milliseconds(5)), Nanos{0}) == milliseconds(160));
  instances[0].alive = false;
  CHECK(latest_first_token(instances, need(milliseconds(5)), Nanos{0}) == std::nullopt);
  CHECK(latest_first_token({}, need(milliseconds(5)), Nanos{0}) == std::nullopt);
}

TEST_CASE("hours of work and any margin stay a time") {
  const std::vector<PrefillInstance> instances = {known(std::chrono::hours(100), 1'000'000'000)};
  const auto latest = latest_first_token(instances, need(milliseconds(5)), Nanos{0});
  REQUIRE(latest.has_value());
  CHECK(*latest > std::chrono::hours(100));
}
