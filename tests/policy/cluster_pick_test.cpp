// What every way to choose a cluster keeps, and what the one that is shipped promises.
#include "actors/policy/cluster_pick.h"

#include <algorithm>
#include <array>
#include <doctest/doctest.h>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "actors/policy/draw.h"

using namespace shoal;
using std::chrono::milliseconds;

namespace {

ClusterState cluster(std::uint32_t id, int first_token_ms) {
  return {.id = id,
          .health = HealthVerdict::kOk,
          .first_token = milliseconds(first_token_ms),
          .ranks = 8,
          .limit = 100};
}

std::vector<ClusterState> drawn(std::uint64_t seed, std::size_t count) {
  Draw draw(seed);
  std::vector<ClusterState> clusters;
  for (std::size_t i = 0; i < count; ++i) {
    ClusterState c = cluster(static_cast<std::uint32_t>(100 + i), 0);
    c.health = static_cast<HealthVerdict>(draw.below(5));
    c.first_token = milliseconds(draw.below(500));
    c.sent = milliseconds(draw.below(2'000));
    c.ranks = static_cast<std::int64_t>(draw.below(9));
    c.distance = milliseconds(draw.below(80));
    c.fetch = milliseconds(draw.below(300));
    c.open = static_cast<std::int64_t>(draw.below(6));
    c.limit = 4;
    c.avoided = draw.below(6) == 0;
    clusters.push_back(c);
  }
  return clusters;
}

ClusterNeed need(std::uint64_t request) {
  return {.work = milliseconds(40), .deadline = Nanos{0}, .tie = request};
}

template <class Test>
void for_each_policy(const Test& test) {
  for (const ClusterPolicyRow& row : cluster_policies()) {
    CAPTURE(row.name);
    test(row);
  }
}

ClusterPick first_token(const std::vector<ClusterState>& clusters, const ClusterNeed& of) {
  return find_cluster_policy("first_token")->make(1)->pick(clusters, of);
}

}  // namespace

TEST_CASE("ways to choose a cluster have different names and are found by them") {
  std::set<std::string_view> names;
  for_each_policy([&names](const ClusterPolicyRow& row) {
    CHECK(names.insert(row.name).second);
    CHECK(find_cluster_policy(row.name) == &row);
    CHECK_FALSE(row.what.empty());
  });
  CHECK(cluster_policies().front().name == "first_token");
  CHECK(find_cluster_policy("best_of_all") == nullptr);
}

TEST_CASE("a cluster is taken only if it answers and has room, and one is if there is one") {
  for_each_policy([](const ClusterPolicyRow& row) {
    const auto policy = row.make(1);
    for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
      const auto clusters = drawn(seed, seed % 7);
      CAPTURE(seed);
      const bool any = std::any_of(clusters.begin(), clusters.end(), &may_take);
      const bool any_well = std::any_of(clusters.begin(), clusters.end(), [](const auto& c) {
        return may_take(c) && !is_ill(c);
      });
      const ClusterPick pick = policy->pick(clusters, need(seed));
      REQUIRE(pick.cluster.has_value() == any);
      if (pick.cluster) {
        REQUIRE(may_take(clusters.at(*pick.cluster)));
        REQUIRE(is_ill(clusters.at(*pick.cluster)) == !any_well);
      }
    }
  });
}

TEST_CASE("who refuses says why") {
  for_each_policy([](const ClusterPolicyRow& row) {
    const auto policy = row.make(1);
    const auto reason = [&policy](std::vector<ClusterState> clusters) {
      return policy->pick(clusters, need(1)).reason;
    };
    CHECK(reason({}) == ClusterReason::kNone);
    ClusterState dead = cluster(1, 5);
    dead.health = HealthVerdict::kDead;
    CHECK(reason({dead}) == ClusterReason::kAllDown);
    ClusterState full = cluster(2, 5);
    full.open = full.limit;
    CHECK(reason({dead, full}) == ClusterReason::kAllFull);
  });
}

TEST_CASE("a way to choose a cluster with the same seed decides the same again") {
  for_each_policy([](const ClusterPolicyRow& row) {
    const auto first = row.make(7);
    const auto second = row.make(7);
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
      const auto clusters = drawn(seed, 6);
      REQUIRE(first->pick(clusters, need(seed)).cluster ==
              second->pick(clusters, need(seed)).cluster);
    }
  });
}

TEST_CASE("the order in which clusters are listed does not matter") {
  for (const char* name : {"first_token", "least_requests", "nearest"}) {
    CAPTURE(name);
    const auto policy = find_cluster_policy(name)->make(1);
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
      auto clusters = drawn(seed, 6);
      const auto before = policy->pick(clusters, need(seed)).cluster;
      const std::uint32_t id = before ? clusters[*before].id : 0;
      std::reverse(clusters.begin(), clusters.end());
      const auto after = policy->pick(clusters, need(seed)).cluster;
      REQUIRE(before.has_value() == after.has_value());
      REQUIRE((!after || clusters[*after].id == id));
    }
  }
}

TEST_CASE("no way to choose a cluster fails on absurd reports") {
  constexpr Nanos kMost{std::numeric_limits<std::int64_t>::max()};
  ClusterState absurd = cluster(1, 0);
  absurd.first_token = absurd.sent = absurd.distance = absurd.fetch = kMost;
  absurd.ranks = 0;
  ClusterState negative = cluster(2, 0);
  negative.first_token = negative.sent = negative.distance = negative.fetch = Nanos::min();
  negative.ranks = -5;
  for_each_policy([&](const ClusterPolicyRow& row) {
    const auto policy = row.make(3);
    const std::array<ClusterState, 2> clusters = {absurd, negative};
    for (const Nanos work : {Nanos{0}, Nanos{-1}, kMost}) {
      const ClusterPick pick = policy->pick(clusters, {.work = work, .tie = 1});
      CHECK(pick.cluster.has_value());
      CHECK(pick.first_token >= Nanos{0});
    }
  });
}

TEST_CASE("a far cluster is taken where it is earlier with the way there and back") {
  std::vector<ClusterState> clusters = {cluster(1, 100), cluster(2, 20)};
  clusters[1].distance = milliseconds(30);
  CHECK(first_token(clusters, need(1)).cluster == 1);
  clusters[1].distance = milliseconds(50);
  const ClusterPick pick = first_token(clusters, need(1));
  CHECK(pick.cluster == 0);
  CHECK(pick.reason == ClusterReason::kFirst);
  CHECK(pick.first_token == milliseconds(140));
  CHECK(pick.runner_up == milliseconds(160));
}

TEST_CASE("work that was sent since the report counts, shared by the ranks") {
  std::vector<ClusterState> clusters = {cluster(1, 10), cluster(2, 60)};
  clusters[0].sent = milliseconds(8 * 100);
  CHECK(predict_first_token(clusters[0], need(1)) == milliseconds(150));
  CHECK(first_token(clusters, need(1)).cluster == 1);
}

TEST_CASE("KV is fetched while the request waits: the longer of the two counts") {
  ClusterState c = cluster(1, 30);
  c.fetch = milliseconds(20);
  CHECK(predict_first_token(c, need(1)) == milliseconds(70));
  c.fetch = milliseconds(90);
  CHECK(predict_first_token(c, need(1)) == milliseconds(130));
}

TEST_CASE("clusters that are about as early share the requests") {
  const std::vector<ClusterState> clusters = {cluster(1, 160), cluster(2, 165), cluster(3, 300)};
  std::map<std::size_t, int> taken;
  for (std::uint64_t request = 0; request < 1'000; ++request) {
    const ClusterPick pick = first_token(clusters, need(request));
    REQUIRE(pick.cluster.has_value());
    ++taken[*pick.cluster];
    CHECK(pick.reason == (*pick.cluster == 0 ? ClusterReason::kFirst : ClusterReason::kShared));
  }
  CHECK(taken[0] > 400);
  CHECK(taken[1] > 400);
  CHECK(taken.count(2) == 0);
}

TEST_CASE("a request whose deadline would pass everywhere is refused with the earliest time") {
  const std::vector<ClusterState> clusters = {cluster(1, 100), cluster(2, 200)};
  ClusterNeed of = need(1);
  of.deadline = milliseconds(139);
  const ClusterPick refused = first_token(clusters, of);
  CHECK_FALSE(refused.cluster.has_value());
  CHECK(refused.reason == ClusterReason::kTooLate);
  CHECK(refused.first_token == milliseconds(140));
  of.deadline = milliseconds(140);
  CHECK(first_token(clusters, of).cluster == 0);
}

TEST_CASE("a degraded cluster gets requests only when no healthy one has room") {
  std::vector<ClusterState> clusters = {cluster(1, 500), cluster(2, 1)};
  clusters[1].health = HealthVerdict::kDegraded;
  CHECK(first_token(clusters, need(1)).cluster == 0);
  clusters[0].open = clusters[0].limit;
  const ClusterPick pick = first_token(clusters, need(1));
  CHECK(pick.cluster == 1);
  CHECK(pick.reason == ClusterReason::kOnlyIll);
}

TEST_CASE("first tokens come earlier than by taking turns, by chance, by counts or by distance") {
  // Four clusters of different size and distance. Requests come every 5 ms; each cluster does
  // `ranks` ms of work in a ms and reports every 100 ms.
  const auto mean_ms = [](const char* name) {
    const auto policy = find_cluster_policy(name)->make(1);
    constexpr std::array<int, 4> kRanks = {64, 32, 16, 4};
    std::array<double, 4> backlog{};
    std::vector<ClusterState> clusters;
    for (std::size_t i = 0; i < kRanks.size(); ++i) {
      clusters.push_back(cluster(static_cast<std::uint32_t>(i), 0));
      clusters[i].ranks = kRanks[i];
      clusters[i].distance = milliseconds(5 * i);
      clusters[i].limit = 1 << 20;
    }
    Draw draw(5);
    double sum = 0;
    constexpr int kRequests = 4'000;
    for (int r = 0; r < kRequests; ++r) {
      for (std::size_t i = 0; i < kRanks.size(); ++i) {
        backlog[i] = std::max(0.0, backlog[i] - 5.0 * kRanks[i]);
        if (r % 20 == 0) {
          clusters[i].first_token = milliseconds(static_cast<int>(backlog[i] / kRanks[i]));
          clusters[i].sent = Nanos{0};
          clusters[i].open = static_cast<std::int64_t>(backlog[i] / 400);
        }
      }
      const auto work = static_cast<int>(100 + draw.below(800));
      const ClusterPick pick =
          policy->pick(clusters, {.work = milliseconds(work), .tie = draw.next()});
      const std::size_t to = pick.cluster.value();
      sum += backlog[to] / kRanks[to] + work + 10.0 * static_cast<double>(to);
      backlog[to] += work;
      clusters[to].sent += milliseconds(work);
      ++clusters[to].open;
    }
    return sum / kRequests;
  };
  const double ours = mean_ms("first_token");
  for (const char* name : {"round_robin", "random", "least_requests", "nearest"}) {
    CAPTURE(name);
    CAPTURE(ours);
    CHECK(ours <= mean_ms(name));
  }
}
