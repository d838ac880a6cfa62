// Loads are kept so that a rank has 1 on average.
#include "actors/policy/expert_pack.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "schemas/check.h"

namespace shoal {

namespace {

constexpr double kSwapGain = 1e-3;  // of a rank's load; less is not worth a swap

std::vector<double> scaled(const ExpertShape& shape, std::span<const double> loads) {
  CHECK(unplannable(shape).empty() && std::ssize(loads) == shape.experts);
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  std::vector<double> own(loads.begin(), loads.end());
  for (double& load : own) {
    load = sum > 0 ? load * shape.ranks / sum : static_cast<double>(shape.ranks) / shape.experts;
  }
  return own;
}

class Packing {
 public:
  Packing(const ExpertShape& shape, std::span<const double> loads)
      : shape_(shape),
        each_(scaled(shape, loads)),
        replicas_(shape.experts, 1),
        at_(shape.all_slots(), kEmptySlot),
        level_(shape.ranks, 0),
        used_(shape.ranks, 0),
        shared_(shape.ranks, 0),
        joined_(shape.ranks) {
    std::iota(joined_.begin(), joined_.end(), 0);
  }

  SlotExperts pack();

 private:
  void replicate();
  void place_shared(std::int32_t expert);
  void place_others(std::span<const std::int32_t> order);
  bool swap_of_fullest();

  void put(std::int32_t rank, std::int32_t expert) {
    at_[rank * shape_.slots + used_[rank]++] = expert;
    level_[rank] += each_[expert];
  }

  std::int32_t root(std::int32_t rank) {
    while (joined_[rank] != rank) {
      rank = joined_[rank] = joined_[joined_[rank]];
    }
    return rank;
  }

  ExpertShape shape_;
  std::vector<double> each_;  // load of a replica of each expert
  std::vector<std::int32_t> replicas_;
  SlotExperts at_;
  std::vector<double> level_;         // of each rank
  std::vector<std::int32_t> used_;    // slots of each rank
  std::vector<std::int32_t> shared_;  // of those, with replicated experts
  std::vector<std::int32_t> joined_;  // by replicated experts: trees of ranks
};

SlotExperts Packing::pack() {
  replicate();
  std::vector<std::int32_t> order(shape_.experts);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [this](std::int32_t a, std::int32_t b) {
    return each_[a] > each_[b];
  });
  for (const std::int32_t expert : order) {
    if (replicas_[expert] > 1) {
      place_shared(expert);
    }
  }
  place_others(order);
  while (swap_of_fullest()) {
  }
  return std::move(at_);
}

// No more of an expert than there are ranks.
void Packing::replicate() {
  using Candidate = std::pair<double, std::int32_t>;  // the lowest number first among equals
  std::priority_queue<Candidate> open;
  for (std::int32_t expert = 0; expert < shape_.experts && shape_.ranks > 1; ++expert) {
    open.emplace(each_[expert], -expert);
  }
  const std::vector<double> whole = each_;
  for (std::int32_t spare = shape_.all_slots() - shape_.experts; spare > 0 && !open.empty();
       --spare) {
    const std::int32_t expert = -open.top().second;
    open.pop();
    each_[expert] = whole[expert] / ++replicas_[expert];
    if (replicas_[expert] < shape_.ranks) {
      open.emplace(each_[expert], -expert);
    }
  }
}

void Packing::place_shared(std::int32_t expert) {
  std::vector<std::int32_t> own;
  std::vector<bool> taken(shape_.ranks, false);
  std::vector<bool> reached(shape_.ranks, false);  // roots of what the expert joins
  for (std::int32_t i = 0; i < replicas_[expert]; ++i) {
    std::int32_t best = -1;
    std::tuple<std::int32_t, bool, double> least;
    for (std::int32_t rank = 0; rank < shape_.ranks; ++rank) {
      if (used_[rank] == shape_.slots || taken[rank] ||
          (best >= 0 && shared_[rank] > std::get<0>(least))) {
        continue;
      }
      const std::tuple order(shared_[rank], bool{reached[root(rank)]}, level_[rank]);
      if (best < 0 || order < least) {
        best = rank;
        least = order;
      }
    }
    if (best < 0) {  // all ranks with room have it; the slot stays empty
      break;
    }
    put(best, expert);
    ++shared_[best];
    taken[best] = true;
    reached[root(best)] = true;
    own.push_back(best);
  }
  for (const std::int32_t rank : own) {
    joined_[root(rank)] = root(own.front());
  }
}

void Packing::place_others(std::span<const std::int32_t> order) {
  using Open = std::pair<double, std::int32_t>;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
  for (std::int32_t rank = 0; rank < shape_.ranks; ++rank) {
    if (used_[rank] < shape_.slots) {
      open.emplace(level_[rank], rank);
    }
  }
  for (const std::int32_t expert : order) {
    if (replicas_[expert] > 1) {
      continue;
    }
    const std::int32_t rank = open.top().second;
    open.pop();
    put(rank, expert);
    if (used_[rank] < shape_.slots) {
      open.emplace(level_[rank], rank);
    }
  }
}

// The swap after which the fuller of both ranks is lowest: never below the mean of both, so most
// ranks need no look at their experts. False: none helps.
bool Packing::swap_of_fullest() {
  const auto fullest =
      static_cast<std::int32_t>(std::max_element(level_.begin(), level_.end()) - level_.begin());
  double least = level_[fullest] - kSwapGain;
  std::pair<std::int32_t, std::int32_t> best{-1, -1};
  for (std::int32_t other = 0; other < shape_.ranks; ++other) {
    if (level_[fullest] + level_[other] >= 2 * least) {
      continue;
    }
    for (std::int32_t a = fullest * shape_.slots; a < fullest * shape_.slots + used_[fullest];
         ++a) {
      if (replicas_[at_[a]] > 1) {
        continue;
      }
      for (std::int32_t b = other * shape_.slots; b < other * shape_.slots + used_[other]; ++b) {
        const double gain = each_[at_[a]] - each_[at_[b]];
        const double after = std::max(level_[fullest] - gain, level_[other] + gain);
        if (after < least && replicas_[at_[b]] == 1) {
          least = after;
          best = {a, b};
        }
      }
    }
  }
  if (best.first < 0) {
    return false;
  }
  const double gain = each_[at_[best.first]] - each_[at_[best.second]];
  level_[fullest] -= gain;
  level_[best.second / shape_.slots] += gain;
  std::swap(at_[best.first], at_[best.second]);
  return true;
}

}  // namespace

SlotExperts pack_experts(const ExpertShape& shape, std::span<const double> loads) {
  return Packing(shape, loads).pack();
}

}  // namespace shoal
