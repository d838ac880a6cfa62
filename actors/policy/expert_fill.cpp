// What does not change from step to step is laid out when the placement is known: a split runs
// over flat arrays and allocates nothing.
#include "actors/policy/expert_fill.h"

#include <algorithm>
#include <numeric>

#include "schemas/check.h"

namespace shoal {

namespace {

constexpr int kSharesSweeps = 6;
constexpr int kRefills = 2;
constexpr int kHalvings = 5;
constexpr std::int32_t kLevel = 512;         // this part of the mean above it counts as level
constexpr std::int32_t kGoodEnough = 128;    // this part is no reason for a refill
constexpr double kForecastTokens = 1 << 24;  // that shares are found with

// Ranks and multiples that are connected.
class Components {
 public:
  explicit Components(std::int32_t count) : above_(count) {
    std::iota(above_.begin(), above_.end(), 0);
  }

  // False: they were already.
  bool join(std::int32_t a, std::int32_t b) {
    a = root(a);
    b = root(b);
    above_[a] = b;
    return a != b;
  }

 private:
  std::int32_t root(std::int32_t v) {
    while (above_[v] != v) {
      v = above_[v] = above_[above_[v]];
    }
    return v;
  }

  std::vector<std::int32_t> above_;
};

}  // namespace

ExpertFill::ExpertFill(const ExpertShape& shape,
                       std::span<const std::int32_t> expert_at,
                       std::span<const double> forecast)
    : shape_(shape),
      ranks_(shape.ranks),
      is_single_(shape.experts, false) {
  find_replicas(shape, expert_at);
  for (auto* of_rank : {&alone_, &fixed_, &level_}) {
    of_rank->resize(ranks_);
  }
  rest_.resize(multiples_.size());
  left_.resize(multiples_.size());
  amount_.resize(edges_.size());
  grow_forest();
  order_visits();
  find_shares(shape, forecast);
}

void ExpertFill::find_replicas(const ExpertShape& shape, std::span<const std::int32_t> expert_at) {
  const ReplicaIndex replicas(shape, expert_at);
  for (std::int32_t expert = 0; expert < shape.experts; ++expert) {
    const auto slots = replicas.slots_of(expert);
    CHECK(!slots.empty());
    if (shape.rank_of(slots.front()) == shape.rank_of(slots.back())) {
      singles_.push_back({expert, slots[0], shape.rank_of(slots[0])});
      is_single_[expert] = true;
      continue;
    }
    const auto multiple = static_cast<std::int32_t>(multiples_.size());
    const auto first = static_cast<std::int32_t>(edges_.size());
    for (const std::int32_t slot : slots) {
      const std::int32_t rank = shape.rank_of(slot);
      if (std::ssize(edges_) == first || edges_.back().rank != rank) {
        edges_.push_back({slot, rank, false});
        owner_.push_back(multiple);
      }
    }
    multiples_.push_back({expert, first, static_cast<std::int32_t>(edges_.size()) - first});
  }
}

void ExpertFill::move_singles(std::span<const std::int32_t> expert_at) {
  singles_.clear();
  for (std::int32_t slot = 0; slot < shape_.all_slots(); ++slot) {
    const std::int32_t expert = expert_at[slot];
    if (expert != kEmptySlot && is_single_[expert]) {
      singles_.push_back({expert, slot, shape_.rank_of(slot)});
    }
  }
}

void ExpertFill::grow_forest() {
  Components components(ranks_ + static_cast<std::int32_t>(multiples_.size()));
  for (std::int32_t e = 0; e < std::ssize(edges_); ++e) {
    edges_[e].in_forest = components.join(edges_[e].rank, ranks_ + owner_[e]);
    if (!edges_[e].in_forest) {
      outside_.push_back(e);
    }
  }
}

void ExpertFill::order_visits() {
  std::vector<std::int32_t> first(ranks_ + 1, 0);  // of each rank in at_rank, and the end
  for (const Edge& edge : edges_) {
    first[edge.rank + 1] += edge.in_forest ? 1 : 0;
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::int32_t> at_rank(first.back());
  std::vector<std::int32_t> next(first.begin(), first.end() - 1);
  for (std::int32_t e = 0; e < std::ssize(edges_); ++e) {
    if (edges_[e].in_forest) {
      at_rank[next[edges_[e].rank]++] = e;
    }
  }
  std::vector<bool> seen(ranks_, false);
  for (std::int32_t root = 0; root < ranks_; ++root) {
    if (!seen[root]) {
      seen[root] = true;
      visit_tree(root, first, at_rank, seen);
    }
  }
  std::reverse(visits_.begin(), visits_.end());
}

// Breadth first: a tree has one way to each, so a rank that was seen is where its expert hangs.
void ExpertFill::visit_tree(std::int32_t root,
                            std::span<const std::int32_t> first,
                            std::span<const std::int32_t> at_rank,
                            std::vector<bool>& seen) {
  std::vector<std::pair<std::int32_t, std::int32_t>> queue{{root, -1}};  // rank, expert above it
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const auto [rank, above] = queue[next];
    for (const std::int32_t up : at_rank.subspan(first[rank], first[rank + 1] - first[rank])) {
      const std::int32_t multiple = owner_[up];
      if (multiple == above) {
        continue;
      }
      visits_.push_back({multiple, up, rank, false});
      const Multiple& expert = multiples_[multiple];
      for (std::int32_t e = expert.first; e < expert.first + expert.count; ++e) {
        if (edges_[e].in_forest && !seen[edges_[e].rank]) {
          seen[edges_[e].rank] = true;
          visits_.push_back({multiple, e, edges_[e].rank, true});
          queue.emplace_back(edges_[e].rank, multiple);
        }
      }
    }
  }
}

// From even shares on, so that all replicas are used where nothing speaks against it.
void ExpertFill::find_shares(const ExpertShape& shape, std::span<const double> forecast) {
  CHECK(std::ssize(forecast) == shape.experts);
  const double sum = std::accumulate(forecast.begin(), forecast.end(), 0.0);
  const double scale = sum > 0 ? kForecastTokens / sum : 0;
  std::vector<std::int32_t> counts(shape.experts);
  for (std::int32_t expert = 0; expert < shape.experts; ++expert) {
    counts[expert] = static_cast<std::int32_t>(forecast[expert] * scale);
  }
  shares_.assign(shape.all_slots(), 0);
  std::vector<std::int32_t> tokens(shape.all_slots());
  for (const Single& single : singles_) {
    shares_[single.slot] = 1;
  }
  for (const Edge& edge : edges_) {
    shares_[edge.slot] = 1.0 / multiples_[owner_[&edge - edges_.data()]].count;
  }
  begin(counts, tokens);
  give_shares(counts);
  for (int i = 0; i < kSharesSweeps; ++i) {
    sweep(counts);
  }
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    const std::int32_t count = counts[multiples_[owner_[e]].expert];
    if (count > 0) {
      shares_[edges_[e].slot] = static_cast<double>(amount_[e]) / count;
    }
  }
}

// Places the tokens that have one place only. Returns how many there are of all.
std::int64_t ExpertFill::begin(std::span<const std::int32_t> counts,
                               std::span<std::int32_t> tokens) {
  std::fill(alone_.begin(), alone_.end(), 0);
  std::fill(tokens.begin(), tokens.end(), 0);
  std::int64_t sum = 0;
  for (const Single& single : singles_) {
    const std::int32_t count = counts[single.expert];
    alone_[single.rank] += count;
    tokens[single.slot] = count;
    sum += count;
  }
  for (const Multiple& multiple : multiples_) {
    sum += counts[multiple.expert];
  }
  return sum;
}

void ExpertFill::give_shares(std::span<const std::int32_t> counts) {
  std::copy(alone_.begin(), alone_.end(), level_.begin());
  for (const Multiple& multiple : multiples_) {
    std::int32_t left = counts[multiple.expert];
    for (std::int32_t e = multiple.first; e < multiple.first + multiple.count; ++e) {
      const bool is_last = e + 1 == multiple.first + multiple.count;
      const double share = shares_[edges_[e].slot] * counts[multiple.expert];
      amount_[e] = is_last ? left : std::min(left, static_cast<std::int32_t>(share));
      left -= amount_[e];
      level_[edges_[e].rank] += amount_[e];
    }
  }
}

// Takes each multiple's tokens up and pours them over its lowest ranks.
void ExpertFill::sweep(std::span<const std::int32_t> counts) {
  for (const Multiple& multiple : multiples_) {
    for (std::int32_t e = multiple.first; e < multiple.first + multiple.count; ++e) {
      level_[edges_[e].rank] -= amount_[e];
    }
    if (multiple.count == 2) {
      fill_two(multiple, counts[multiple.expert]);
    } else {
      fill_many(multiple, counts[multiple.expert]);
    }
    for (std::int32_t e = multiple.first; e < multiple.first + multiple.count; ++e) {
      level_[edges_[e].rank] += amount_[e];
    }
  }
}

void ExpertFill::fill_two(const Multiple& multiple, std::int32_t open) {
  const std::int32_t first = multiple.first;
  const std::int32_t gap = level_[edges_[first + 1].rank] - level_[edges_[first].rank];
  amount_[first] = std::clamp((open + gap) / 2, 0, open);
  amount_[first + 1] = open - amount_[first];
}

void ExpertFill::fill_many(const Multiple& multiple, std::int32_t open) {
  lowest_.clear();
  for (std::int32_t e = multiple.first; e < multiple.first + multiple.count; ++e) {
    amount_[e] = 0;
    lowest_.emplace_back(level_[edges_[e].rank], e);
  }
  std::sort(lowest_.begin(), lowest_.end());
  // The water stands over the first `wet` of them.
  std::int64_t sum = open;
  std::int32_t wet = 0;
  for (; wet < multiple.count && sum >= std::int64_t{lowest_[wet].first} * wet; ++wet) {
    sum += lowest_[wet].first;
  }
  const auto water = static_cast<std::int32_t>(sum / wet);
  for (std::int32_t i = wet - 1; i >= 0; --i) {
    const std::int32_t amount = std::clamp(water - lowest_[i].first, 0, open);
    amount_[lowest_[i].second] = i == 0 ? open : amount;
    open -= amount;
  }
}

// What is outside the forest stays where it is.
void ExpertFill::fix_outside(std::span<const std::int32_t> counts) {
  std::copy(alone_.begin(), alone_.end(), fixed_.begin());
  for (std::size_t m = 0; m < multiples_.size(); ++m) {
    rest_[m] = counts[multiples_[m].expert];
  }
  for (const std::int32_t e : outside_) {
    fixed_[edges_[e].rank] += amount_[e];
    rest_[owner_[e]] -= amount_[e];
  }
}

// Fills ranks up to `level` where the forest allows it. Returns the fullest: no more than `level`
// if that is possible at all.
std::int32_t ExpertFill::settle(std::int32_t level) {
  std::copy(fixed_.begin(), fixed_.end(), level_.begin());
  std::copy(rest_.begin(), rest_.end(), left_.begin());
  for (const Visit& visit : visits_) {
    std::int32_t& left = left_[visit.multiple];
    std::int32_t& filled = level_[visit.rank];
    const std::int32_t amount = visit.is_rank ? std::clamp(level - filled, 0, left) : left;
    amount_[visit.edge] = amount;
    filled += amount;
    left -= amount;
  }
  return *std::max_element(level_.begin(), level_.end());
}

// Halves the interval that holds the least level; leaves the best that was found.
std::int32_t ExpertFill::search(std::int32_t mean) {
  const std::int32_t close = mean / kLevel;
  std::int32_t low = std::max(mean + close, *std::max_element(fixed_.begin(), fixed_.end()));
  std::int32_t settled = low;
  std::int32_t best = low;
  std::int32_t high = settle(low);
  for (int i = 0; i < kHalvings && high - low > close; ++i) {
    settled = low + (high - low) / 2;
    const std::int32_t fullest = settle(settled);
    if (fullest > settled) {
      low = settled;
    }
    if (fullest < high) {
      high = fullest;
      best = settled;
    }
  }
  return settled == best ? high : settle(best);
}

std::int32_t ExpertFill::split(std::span<const std::int32_t> counts,
                               std::span<std::int32_t> tokens) {
  const std::int64_t sum = begin(counts, tokens);
  const auto mean = static_cast<std::int32_t>((sum + ranks_ - 1) / ranks_);
  if (!outside_.empty()) {
    give_shares(counts);
  }
  fix_outside(counts);
  std::int32_t fullest = search(mean);
  for (int i = 0; i < kRefills && !outside_.empty() && fullest > mean + mean / kGoodEnough; ++i) {
    sweep(counts);
    fix_outside(counts);
    fullest = search(mean);
  }
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    tokens[edges_[e].slot] = amount_[e];
  }
  return fullest;
}

}  // namespace shoal
