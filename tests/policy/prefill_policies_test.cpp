// What every way to choose a prefill instance keeps, and what some of them promise.
#include "actors/policy/prefill_policies.h"

#include <array>
#include <doctest/doctest.h>
#include <limits>
#include <set>
#include <vector>

#include "actors/policy/draw.h"

using namespace shoal;
using std::chrono::milliseconds;

namespace {

constexpr std::size_t kRanks = 4;

// Instances and the ranks that they point at.
struct Site {
  std::vector<std::vector<PrefillRankLoad>> ranks;
  std::vector<PrefillInstance> instances;

  void point() {
    for (std::size_t i = 0; i < instances.size(); ++i) {
      instances[i].ranks = ranks[i];
    }
  }
};

Site drawn(std::uint64_t seed, std::size_t count) {
  Draw draw(seed);
  Site site;
  for (std::size_t i = 0; i < count; ++i) {
    PrefillInstance instance;
    instance.alive = draw.below(4) > 0;
    instance.holds = draw.below(8) > 0;
    instance.avoided = draw.below(8) == 0;
    instance.waiting = static_cast<std::int64_t>(draw.below(6));
    instance.step_left = milliseconds(draw.below(60));
    for (Nanos& queued : instance.queued) {
      queued = milliseconds(draw.below(2'000));
    }
    auto& ranks = site.ranks.emplace_back(kRanks);
    for (PrefillRankLoad& rank : ranks) {
      rank.requests = static_cast<std::int64_t>(draw.below(5));
      rank.rows = rank.requests * 1'000;
      rank.work = milliseconds(rank.requests * 15);
      instance.requests += rank.requests;
    }
    site.instances.push_back(instance);
  }
  site.point();
  return site;
}

PrefillNeed need(std::uint64_t request, Nanos work = milliseconds(30)) {
  return {.work = work,
          .length_class = 1,
          .rows = 2'000,
          .quota = milliseconds(60),
          .waiting_limit = 4,
          .tie = request};
}

template <class Test>
void for_each_policy(const Test& test) {
  for (const PrefillPolicyRow& row : prefill_policies()) {
    CAPTURE(row.name);
    test(row);
  }
}

std::vector<PrefillRankLoad> one_rank(int ms) {
  return {{1, ms * 60, milliseconds(ms)}};
}

}  // namespace

TEST_CASE("policies have different names and are found by them") {
  std::set<std::string_view> names;
  for_each_policy([&names](const PrefillPolicyRow& row) {
    CHECK(names.insert(row.name).second);
    CHECK(find_prefill_policy(row.name) == &row);
    CHECK_FALSE(row.what.empty());
  });
  CHECK(find_prefill_policy("best_of_all") == nullptr);
}

TEST_CASE("every policy takes only instances that may take the request, and one if there is one") {
  for_each_policy([](const PrefillPolicyRow& row) {
    const auto policy = row.make(1);
    for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
      const Site site = drawn(seed, seed % 9);
      const bool has_other = has_unavoided(site.instances);
      bool any = false;
      for (const PrefillInstance& instance : site.instances) {
        any |= may_take(instance, need(seed), has_other);
      }
      CAPTURE(seed);
      const auto choice = policy->pick(site.instances, need(seed));
      REQUIRE(choice.has_value() == any);
      if (choice) {
        REQUIRE(may_take(site.instances.at(choice->instance), need(seed), has_other));
        REQUIRE(choice->rank < kRanks);
      }
    }
  });
}

TEST_CASE("a policy with the same seed decides the same again") {
  for_each_policy([](const PrefillPolicyRow& row) {
    const auto first = row.make(7);
    const auto second = row.make(7);
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
      const Site site = drawn(seed, 8);
      const auto a = first->pick(site.instances, need(seed));
      const auto b = second->pick(site.instances, need(seed));
      REQUIRE(a.has_value() == b.has_value());
      REQUIRE((!a || (a->instance == b->instance && a->rank == b->rank)));
    }
  });
}

TEST_CASE("no policy fails on an instance that is 100 times slower, nor on absurd work") {
  const std::array<Nanos, 4> works = {Nanos{0},
                                      Nanos{1},
                                      milliseconds(3'600'000),
                                      Nanos{std::numeric_limits<std::int64_t>::max() / 64}};
  for_each_policy([&works](const PrefillPolicyRow& row) {
    const auto policy = row.make(3);
    Site site = drawn(5, 4);
    for (PrefillInstance& instance : site.instances) {
      instance.alive = instance.holds = true;
      instance.waiting = 0;
    }
    for (PrefillRankLoad& rank : site.ranks[2]) {
      rank.work *= 100;
    }
    for (const Nanos work : works) {
      CHECK(policy->pick(site.instances, need(1, work)).has_value());
    }
  });
}

TEST_CASE("policies that look at load leave the busiest instance alone") {
  for (const char* name : {"first_token", "least_requests", "least_rows", "least_work", "finish"}) {
    CAPTURE(name);
    Site site;
    for (const int ms : {80, 20, 50}) {
      site.ranks.push_back(one_rank(ms));
      PrefillInstance instance{.alive = true};
      instance.requests = ms / 10;
      site.instances.push_back(instance);
    }
    site.point();
    const auto choice = find_prefill_policy(name)->make(1)->pick(site.instances, need(1));
    REQUIRE(choice.has_value());
    CHECK(choice->instance == 1);
  }
}

TEST_CASE("round robin takes every instance before any one twice") {
  const auto policy = find_prefill_policy("round_robin")->make(1);
  const std::vector<PrefillInstance> idle(5, PrefillInstance{.alive = true});
  std::set<std::size_t> taken;
  for (std::uint64_t request = 0; request < idle.size(); ++request) {
    taken.insert(policy->pick(idle, need(request))->instance);
  }
  CHECK(taken.size() == idle.size());
}
