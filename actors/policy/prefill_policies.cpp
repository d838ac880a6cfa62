// Each row is a score of instances, or of ranks where a row binds them; the least score wins.
#include "actors/policy/prefill_policies.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "actors/policy/draw.h"
#include "actors/policy/rendezvous.h"
#include "actors/policy/rows.h"

namespace shoal {
namespace {

// Rows that a reference group runs of a rank in one step.
constexpr std::int64_t kFixedChunk = 8'192;

using Instances = std::span<const PrefillInstance>;

// Of the instances that may take the request, in order.
std::vector<std::size_t> candidates(Instances instances, const PrefillNeed& need) {
  const bool has_other = has_unavoided(instances);
  std::vector<std::size_t> able;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    if (may_take(instances[i], need, has_other)) {
      able.push_back(i);
    }
  }
  return able;
}

// `count` of them, each at most once.
std::vector<std::size_t> sample(std::vector<std::size_t> able, std::size_t count, Draw& draw) {
  for (std::size_t k = 0; k < count && k < able.size(); ++k) {
    std::swap(able[k], able[k + draw.below(able.size() - k)]);
  }
  able.resize(std::min(able.size(), count));
  return able;
}

Nanos all_work(const PrefillInstance& instance) {
  Nanos work{0};
  for (const Nanos queued : instance.queued) {
    work += queued;
  }
  for (const PrefillRankLoad& rank : instance.ranks) {
    work += rank.work;
  }
  return work;
}

// Ranks with equal scores share the requests evenly.
template <class Score>
std::size_t least_rank(const PrefillInstance& instance, Draw& draw, const Score& score) {
  std::size_t best = 0;
  std::uint64_t ties = 0;
  for (std::size_t r = 0; r < instance.ranks.size(); ++r) {
    const auto mine = score(instance.ranks[r]);
    const auto least = score(instance.ranks[best]);
    if (r == 0 || mine < least) {
      best = r;
      ties = 1;
    } else if (mine == least && draw.below(++ties) == 0) {
      best = r;
    }
  }
  return best;
}

class RoundRobin final : public PrefillPolicy {
 public:
  explicit RoundRobin(std::uint64_t) {}

  std::optional<PrefillChoice> pick(Instances instances, const PrefillNeed& need) override {
    const auto able = candidates(instances, need);
    if (able.empty()) {
      return std::nullopt;
    }
    const std::size_t instance = able[turn_ % able.size()];
    const std::size_t ranks = std::max<std::size_t>(1, instances[instance].ranks.size());
    const std::size_t rank = turn_ / able.size() % ranks;
    ++turn_;
    return PrefillChoice{.instance = instance, .rank = rank};
  }

 private:
  std::size_t turn_ = 0;
};

class Random final : public PrefillPolicy {
 public:
  explicit Random(std::uint64_t seed) : draw_(seed) {}

  std::optional<PrefillChoice> pick(Instances instances, const PrefillNeed& need) override {
    const auto able = candidates(instances, need);
    if (able.empty()) {
      return std::nullopt;
    }
    const std::size_t instance = able[draw_.below(able.size())];
    const std::size_t ranks = std::max<std::size_t>(1, instances[instance].ranks.size());
    return PrefillChoice{.instance = instance, .rank = draw_.below(ranks)};
  }

 private:
  Draw draw_;
};

std::int64_t requests_of(const PrefillInstance& instance) {
  return instance.requests;
}

std::int64_t rows_of(const PrefillInstance& instance) {
  std::int64_t rows = 0;
  for (const PrefillRankLoad& rank : instance.ranks) {
    rows += rank.rows;
  }
  return rows;
}

std::int64_t rank_requests(const PrefillRankLoad& rank) {
  return rank.requests;
}

std::int64_t rank_rows(const PrefillRankLoad& rank) {
  return rank.rows;
}

Nanos rank_work(const PrefillRankLoad& rank) {
  return rank.work;
}

// The instance with the least `kOfInstance` among `kSampled` random ones (0: all), then the rank
// with the least `kOfRank`.
template <auto kOfInstance, auto kOfRank, std::size_t kSampled>
class Least final : public PrefillPolicy {
 public:
  explicit Least(std::uint64_t seed) : draw_(seed) {}

  std::optional<PrefillChoice> pick(Instances instances, const PrefillNeed& need) override {
    auto able = candidates(instances, need);
    if (able.empty()) {
      return std::nullopt;
    }
    able = sample(std::move(able), kSampled == 0 ? able.size() : kSampled, draw_);
    const std::size_t best =
        *std::min_element(able.begin(), able.end(), [&instances](std::size_t a, std::size_t b) {
          return kOfInstance(instances[a]) < kOfInstance(instances[b]);
        });
    return PrefillChoice{.instance = best, .rank = least_rank(instances[best], draw_, kOfRank)};
  }

 private:
  Draw draw_;
};

// The rank with the earliest predicted first token, over all ranks of `kSampled` random instances
// (0: of all), for groups that bind a request to a rank and step in lock-step.
template <std::size_t kSampled>
class BoundFinish final : public PrefillPolicy {
 public:
  explicit BoundFinish(std::uint64_t seed) : draw_(seed) {}

  std::optional<PrefillChoice> pick(Instances instances, const PrefillNeed& need) override {
    auto able = candidates(instances, need);
    able = sample(std::move(able), kSampled == 0 ? able.size() : kSampled, draw_);
    std::optional<PrefillChoice> best;
    std::uint64_t ties = 0;
    for (const std::size_t i : able) {
      const auto& ranks = instances[i].ranks;
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        const Nanos finish = predict(instances[i], r, need);
        if (!best || finish < best->finish) {
          best = PrefillChoice{i, r, finish};
          ties = 1;
        } else if (finish == best->finish && draw_.below(++ties) == 0) {
          best = PrefillChoice{i, r, finish};
        }
      }
    }
    return best;
  }

 private:
  // Steps until the rank is through, each stretched by the longest other rank as long as that has
  // work.
  static Nanos predict(const PrefillInstance& instance, std::size_t rank, const PrefillNeed& need) {
    const PrefillRankLoad& own = instance.ranks[rank];
    const std::int64_t rows = own.rows + need.rows;
    const std::int64_t steps = std::max<std::int64_t>(1, (rows + kFixedChunk - 1) / kFixedChunk);
    const Nanos work = own.work + instance.work.value_or(need.work);
    Nanos longest{0};
    for (std::size_t r = 0; r < instance.ranks.size(); ++r) {
      const PrefillRankLoad& other = instance.ranks[r];
      if (r != rank && other.rows > 0) {
        const std::int64_t in_reach = std::min(other.rows, steps * kFixedChunk);
        const double part = static_cast<double>(in_reach) / static_cast<double>(other.rows);
        const auto run = static_cast<std::int64_t>(part * static_cast<double>(other.work.count()));
        longest = std::max(longest, Nanos{run});
      }
    }
    return instance.step_left + std::max(work, longest);
  }

  Draw draw_;
};

// The earliest predicted first token of all instances, or of `kSampled` random ones where there are
// more: that costs less than 1 us however many there are, and choosers that act on one old report
// do not all choose alike.
template <std::size_t kSampled>
class FirstToken final : public PrefillPolicy {
 public:
  explicit FirstToken(std::uint64_t seed) : draw_(seed) {}

  std::optional<PrefillChoice> pick(Instances instances, const PrefillNeed& need) override {
    std::optional<PrefillChoice> best;
    std::pair<Nanos, std::uint64_t> least;
    for (const std::size_t i : sample(candidates(instances, need), kSampled, draw_)) {
      const std::pair order(predict_first_token(instances[i], need),
                            rendezvous_weight(need.tie, i));
      if (!best || order < least) {
        best = PrefillChoice{.instance = i, .finish = order.first};
        least = order;
      }
    }
    return best;
  }

 private:
  Draw draw_;
};

template <class Policy>
std::unique_ptr<PrefillPolicy> make(std::uint64_t seed) {
  return std::make_unique<Policy>(seed);
}

constexpr std::array kRows = {
    PrefillPolicyRow{"first_token",
                     "earliest predicted first token of at most 16 random instances",
                     false,
                     make<FirstToken<16>>},
    PrefillPolicyRow{
        "first_token4", "the same of four random instances", false, make<FirstToken<4>>},
    PrefillPolicyRow{"round_robin", "instances in turn, then ranks", true, make<RoundRobin>},
    PrefillPolicyRow{"random", "any instance and rank", true, make<Random>},
    PrefillPolicyRow{"least_requests",
                     "fewest requests in the instance, then in the rank",
                     true,
                     make<Least<requests_of, rank_requests, 0>>},
    PrefillPolicyRow{"po2_requests",
                     "the same of two random instances",
                     true,
                     make<Least<requests_of, rank_requests, 2>>},
    PrefillPolicyRow{"least_rows",
                     "fewest rows in the instance, then in the rank",
                     true,
                     make<Least<rows_of, rank_rows, 0>>},
    PrefillPolicyRow{"least_work",
                     "least predicted work in the instance, then in the rank",
                     true,
                     make<Least<all_work, rank_work, 0>>},
    PrefillPolicyRow{
        "po2_work", "the same of two random instances", true, make<Least<all_work, rank_work, 2>>},
    PrefillPolicyRow{
        "finish", "earliest predicted first token over all ranks", true, make<BoundFinish<0>>},
    PrefillPolicyRow{
        "finish4", "the same over the ranks of four random instances", true, make<BoundFinish<4>>},
};

}  // namespace

std::span<const PrefillPolicyRow> prefill_policies() {
  return kRows;
}

const PrefillPolicyRow* find_prefill_policy(std::string_view name) {
  return find_row(prefill_policies(), name);
}

}  // namespace shoal
