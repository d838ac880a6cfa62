// Rows of splits.
#include "actors/policy/expert_split.h"

#include <algorithm>
#include <numeric>

#include "actors/policy/draw.h"
#include "actors/policy/expert_fill.h"

namespace shoal {

namespace {

using Slots = std::span<const std::int32_t>;
using Loads = std::span<const double>;

class FillSplit : public ExpertSplit {
 public:
  FillSplit(const ExpertShape& shape, Slots expert_at, Loads forecast)
      : fill_(shape, expert_at, forecast) {}

  void split(std::span<const std::int32_t> counts, std::span<std::int32_t> tokens) override {
    fill_.split(counts, tokens);
  }

 private:
  ExpertFill fill_;
};

// Tokens have random numbers here, as if by a hash of their place in the stream.
class HashSplit : public ExpertSplit {
 public:
  HashSplit(const ExpertShape& shape, Slots expert_at, Loads forecast)
      : replicas_(shape, expert_at),
        experts_(shape.experts),
        draw_(1) {
    const ExpertFill fill(shape, expert_at, forecast);
    below_.resize(shape.all_slots());
    for (std::int32_t expert = 0; expert < experts_; ++expert) {
      double sum = 0;
      for (const std::int32_t slot : replicas_.slots_of(expert)) {
        sum += fill.shares()[slot];
        below_[slot] = static_cast<std::uint64_t>(std::min(sum, 1.0) * kNumbers);
      }
    }
  }

  void split(std::span<const std::int32_t> counts, std::span<std::int32_t> tokens) override {
    std::fill(tokens.begin(), tokens.end(), 0);
    for (std::int32_t expert = 0; expert < experts_; ++expert) {
      const Slots slots = replicas_.slots_of(expert);
      const std::int32_t drawn = slots.size() > 1 ? counts[expert] : 0;
      for (std::int32_t token = 0; token < drawn; ++token) {
        ++tokens[slot_of(slots, draw_.below(kNumbers))];
      }
      tokens[slots.front()] += counts[expert] - drawn;
    }
  }

 private:
  static constexpr std::uint64_t kNumbers = std::uint64_t{1} << 32;

  // Without branches: they would be taken at random.
  std::int32_t slot_of(Slots slots, std::uint64_t number) const {
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < slots.size(); ++i) {
      place += number >= below_[slots[i]] ? 1 : 0;
    }
    return slots[place];
  }

  ReplicaIndex replicas_;
  std::int32_t experts_;
  Draw draw_;
  std::vector<std::uint64_t> below_;  // of numbers: what goes to this slot or one before it
};

class EvenSplit : public ExpertSplit {
 public:
  EvenSplit(const ExpertShape& shape, Slots expert_at)
      : replicas_(shape, expert_at),
        experts_(shape.experts) {}

  void split(std::span<const std::int32_t> counts, std::span<std::int32_t> tokens) override {
    std::fill(tokens.begin(), tokens.end(), 0);
    for (std::int32_t expert = 0; expert < experts_; ++expert) {
      const Slots slots = replicas_.slots_of(expert);
      const auto parts = static_cast<std::int32_t>(slots.size());
      for (std::int32_t i = 0; i < parts; ++i) {
        tokens[slots[i]] = counts[expert] / parts + (i < counts[expert] % parts ? 1 : 0);
      }
    }
  }

 private:
  ReplicaIndex replicas_;
  std::int32_t experts_;
};

constexpr ExpertSplitRow kRows[] = {
    {"fill",
     "by the counts of the step, the lowest ranks first",
     [](const ExpertShape& shape, Slots expert_at, Loads forecast) -> std::unique_ptr<ExpertSplit> {
       return std::make_unique<FillSplit>(shape, expert_at, forecast);
     }},
    {"hash",
     "by a number of the token, in shares that suit the forecast",
     [](const ExpertShape& shape, Slots expert_at, Loads forecast) -> std::unique_ptr<ExpertSplit> {
       return std::make_unique<HashSplit>(shape, expert_at, forecast);
     }},
    {"even",
     "as many to each replica",
     [](const ExpertShape& shape, Slots expert_at, Loads) -> std::unique_ptr<ExpertSplit> {
       return std::make_unique<EvenSplit>(shape, expert_at);
     }},
};

}  // namespace

std::span<const ExpertSplitRow> expert_splits() {
  return kRows;
}

double RankLevels::imbalance(std::int32_t ranks) const {
  return sum > 0 ? static_cast<double>(most) * ranks / static_cast<double>(sum) : 1;
}

RankLevels rank_levels(const ExpertShape& shape, std::span<const std::int32_t> tokens) {
  RankLevels levels;
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    const auto own = tokens.subspan(static_cast<std::size_t>(rank) * shape.slots, shape.slots);
    const std::int64_t level = std::accumulate(own.begin(), own.end(), std::int64_t{0});
    levels.most = std::max(levels.most, level);
    levels.sum += level;
  }
  return levels;
}

}  // namespace shoal
