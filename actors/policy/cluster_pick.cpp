// Candidates, the same for every row; then each row's own choice among them.
#include "actors/policy/cluster_pick.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "actors/policy/draw.h"
#include "actors/policy/rendezvous.h"

namespace shoal {
namespace {

using Clusters = std::span<const ClusterState>;

constexpr std::int64_t kNear = 16;  // one in so many later than the first is as good

// Sums of five stay within 64 bits; what is reported negative is nothing.
std::int64_t bounded(Nanos time) {
  return std::clamp<std::int64_t>(time.count(), 0, std::numeric_limits<std::int64_t>::max() / 8);
}

bool answers(const ClusterState& cluster) {
  return cluster.health != HealthVerdict::kStarting && cluster.health != HealthVerdict::kDead;
}

struct Candidates {
  std::vector<std::size_t> able;
  bool ill = false;  // all of them
};

Candidates candidates(Clusters clusters) {
  Candidates found;
  for (const bool ill : {false, true}) {
    for (std::size_t i = 0; i < clusters.size(); ++i) {
      if (may_take(clusters[i]) && is_ill(clusters[i]) == ill) {
        found.able.push_back(i);
      }
    }
    if (!found.able.empty()) {
      found.ill = ill;
      return found;
    }
  }
  return found;
}

ClusterPick refused(Clusters clusters) {
  ClusterPick pick;
  pick.reason = clusters.empty()                                          ? ClusterReason::kNone
                : std::any_of(clusters.begin(), clusters.end(), &answers) ? ClusterReason::kAllFull
                                                                          : ClusterReason::kAllDown;
  return pick;
}

// What a baseline took.
ClusterPick taken(Clusters clusters,
                  const ClusterNeed& need,
                  const Candidates& found,
                  std::size_t cluster) {
  ClusterPick pick;
  pick.cluster = cluster;
  pick.reason = found.ill ? ClusterReason::kOnlyIll : ClusterReason::kByRow;
  pick.first_token = predict_first_token(clusters[cluster], need);
  pick.able = found.able.size();
  return pick;
}

// The first token of the earliest and of the next.
std::pair<Nanos, Nanos> two_earliest(Clusters clusters,
                                     const ClusterNeed& need,
                                     const std::vector<std::size_t>& able) {
  Nanos first = Nanos::max();
  Nanos second = Nanos::max();
  for (const std::size_t i : able) {
    const Nanos token = predict_first_token(clusters[i], need);
    second = std::min(second, std::max(first, token));
    first = std::min(first, token);
  }
  return {first, able.size() > 1 ? second : Nanos{0}};
}

class FirstToken final : public ClusterPolicy {
 public:
  explicit FirstToken(std::uint64_t) {}

  ClusterPick pick(Clusters clusters, const ClusterNeed& need) override {
    const Candidates found = candidates(clusters);
    if (found.able.empty()) {
      return refused(clusters);
    }
    const auto [first, second] = two_earliest(clusters, need, found.able);
    ClusterPick pick;
    pick.able = found.able.size();
    pick.first_token = first;
    pick.runner_up = second;
    if (need.deadline > Nanos{0} && first > need.deadline) {
      pick.reason = ClusterReason::kTooLate;
      return pick;
    }
    pick.cluster = share(clusters, need, found.able, first);
    pick.first_token = predict_first_token(clusters[*pick.cluster], need);
    pick.reason = found.ill                   ? ClusterReason::kOnlyIll
                  : pick.first_token == first ? ClusterReason::kFirst
                                              : ClusterReason::kShared;
    return pick;
  }

 private:
  // Of those about as early as `first` and in time, the request's own.
  static std::size_t share(Clusters clusters,
                           const ClusterNeed& need,
                           const std::vector<std::size_t>& able,
                           Nanos first) {
    Nanos latest = first + first / kNear;
    if (need.deadline > Nanos{0}) {
      latest = std::min(latest, need.deadline);
    }
    std::optional<std::size_t> best;
    std::pair<std::uint64_t, std::uint32_t> most;
    for (const std::size_t i : able) {
      const std::pair weight(rendezvous_weight(need.tie, clusters[i].id), clusters[i].id);
      if (predict_first_token(clusters[i], need) <= latest && (!best || weight > most)) {
        best = i;
        most = weight;
      }
    }
    return *best;
  }
};

class RoundRobin final : public ClusterPolicy {
 public:
  explicit RoundRobin(std::uint64_t) {}

  ClusterPick pick(Clusters clusters, const ClusterNeed& need) override {
    const Candidates found = candidates(clusters);
    return found.able.empty()
               ? refused(clusters)
               : taken(clusters, need, found, found.able[turn_++ % found.able.size()]);
  }

 private:
  std::size_t turn_ = 0;
};

class Random final : public ClusterPolicy {
 public:
  explicit Random(std::uint64_t seed) : draw_(seed) {}

  ClusterPick pick(Clusters clusters, const ClusterNeed& need) override {
    const Candidates found = candidates(clusters);
    return found.able.empty()
               ? refused(clusters)
               : taken(clusters, need, found, found.able[draw_.below(found.able.size())]);
  }

 private:
  Draw draw_;
};

std::int64_t requests_of(const ClusterState& cluster) {
  return cluster.open;
}

std::int64_t distance_of(const ClusterState& cluster) {
  return bounded(cluster.distance);
}

// The least `kOf`; of equals the request's own.
template <auto kOf>
class Least final : public ClusterPolicy {
 public:
  explicit Least(std::uint64_t) {}

  ClusterPick pick(Clusters clusters, const ClusterNeed& need) override {
    const Candidates found = candidates(clusters);
    if (found.able.empty()) {
      return refused(clusters);
    }
    const auto order = [&](std::size_t i) {
      return std::pair(kOf(clusters[i]), rendezvous_weight(need.tie, clusters[i].id));
    };
    return taken(clusters,
                 need,
                 found,
                 *std::min_element(
                     found.able.begin(), found.able.end(), [&order](std::size_t a, std::size_t b) {
                       return order(a) < order(b);
                     }));
  }
};

template <class Policy>
std::unique_ptr<ClusterPolicy> make(std::uint64_t seed) {
  return std::make_unique<Policy>(seed);
}

constexpr std::array<ClusterPolicyRow, 5> kRows = {{
    {"first_token", "earliest predicted first token; near ones share", &make<FirstToken>},
    {"round_robin", "one after the other", &make<RoundRobin>},
    {"random", "any", &make<Random>},
    {"least_requests", "fewest open requests", &make<Least<&requests_of>>},
    {"nearest", "shortest way", &make<Least<&distance_of>>},
}};

}  // namespace

Nanos predict_first_token(const ClusterState& cluster, const ClusterNeed& need) {
  const std::int64_t ranks = std::max<std::int64_t>(1, cluster.ranks);
  // KV is on its way while the request waits.
  const std::int64_t before = std::max(bounded(cluster.first_token) + bounded(cluster.sent) / ranks,
                                       bounded(cluster.fetch));
  return Nanos{before + bounded(need.work) + 2 * bounded(cluster.distance)};
}

bool may_take(const ClusterState& cluster) {
  return answers(cluster) && cluster.open < cluster.limit;
}

bool is_ill(const ClusterState& cluster) {
  return cluster.health == HealthVerdict::kDegraded || cluster.avoided;
}

std::span<const ClusterPolicyRow> cluster_policies() {
  return kRows;
}

const ClusterPolicyRow* find_cluster_policy(std::string_view name) {
  const auto row = std::find_if(
      kRows.begin(), kRows.end(), [name](const ClusterPolicyRow& r) { return r.name == name; });
  return row == kRows.end() ? nullptr : &*row;
}

std::string_view name_of(ClusterReason reason) {
  switch (reason) {
    case ClusterReason::kFirst:
      return "first";
    case ClusterReason::kShared:
      return "shared";
    case ClusterReason::kOnlyIll:
      return "only_ill";
    case ClusterReason::kByRow:
      return "by_row";
    case ClusterReason::kNone:
      return "no_cluster";
    case ClusterReason::kAllDown:
      return "all_down";
    case ClusterReason::kAllFull:
      return "all_full";
    case ClusterReason::kTooLate:
      return "too_late";
  }
  return "unknown";
}

}  // namespace shoal
