// Counts, hazards fitted as products, and the best rate from every age on. Doubles are added,
// multiplied and divided only, in a fixed order: the same result on every machine.
#include "actors/policy/reuse_model.h"

#include <algorithm>
#include <bit>
#include <span>

#include "schemas/check.h"

namespace shoal {
namespace {

constexpr std::int64_t kSecond = 1'000;

// Observations, in sequences, by which what is known without them weighs: of all blocks at an age;
// of a trait, a pause or a kind at an age. A ratio that is told by 32 sequences is off by a sixth
// as a rule, less than ratios differ; at an age of its own a few sequences tell more than the
// halving law does.
constexpr double kAgeWeight = 3;
constexpr double kWeight = 32;
constexpr double kHalfOctave = 0.70710678118654752;
// Each ratio is fitted to the others in turn; from the fourth time on nothing changes by much.
constexpr int kRounds = 4;

// Counts are halved beyond, so that the model follows what changes.
constexpr std::uint64_t kMostCounted = std::uint64_t{1} << 23;

// A use a quarter of a second is more than any cache sees.
constexpr double kMostRate = 0.25;
constexpr double kUnits = 1099511627776.0;  // 2^40

// The rule of succession: one used n times is used again with (n + 1) / (n + 2). Of the ranges of
// use_level().
constexpr std::array<double, 6> kSuccession{1.0 / 2, 2.0 / 3, 3.0 / 4, 4.5 / 5.5, 0.9, 0.95};

// In the middle of the ranges of idle_level(), in seconds.
constexpr std::array<std::int64_t, 8> kIdleMiddle{0, 4, 11, 22, 45, 128, 512, 3'000};
// Octaves of a wait against the one before, from a sixteenth on; 0: there was none.
constexpr std::size_t kPauses = 10;

constexpr WallMillis begin_of(int age) {
  if (age == 0) {
    return 0;
  }
  const WallMillis octave = kSecond << ((age - 1) / 2);
  if (age % 2 == 1) {
    return octave;
  }
  // Times the square root of two; the last octaves times a million would not fit.
  constexpr WallMillis kMillion = 1'000'000;
  constexpr WallMillis kRoot = 1'414'214;
  return octave / kMillion * kRoot + octave % kMillion * kRoot / kMillion;
}

double width_of(int age) {
  return static_cast<double>(begin_of(age + 1) - begin_of(age)) / static_cast<double>(kSecond);
}

int use_level(std::uint32_t uses) {
  if (uses < 3) {
    return static_cast<int>(uses);
  }
  return uses < 5 ? 3 : uses < 16 ? 4 : 5;
}

// Powers of two around what machines and people take to answer, of four beyond.
int idle_level(WallMillis idle) {
  if (idle <= 0) {
    return 0;
  }
  const int octave = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(idle / kSecond)));
  return octave <= 6 ? std::clamp(octave - 2, 1, 4) : std::min(7, 5 + (octave - 7) / 2);
}

// Powers of two, from a thousand tokens to a hundred thousand.
int turn_level(std::uint32_t turn) {
  return std::clamp(static_cast<int>(std::bit_width(turn)) - 3, 0, 7);
}

using Levels = std::array<std::size_t, ReuseModel::kTraits>;
using Ages = std::array<double, ReuseModel::kAges>;

constexpr Levels levels_of(std::size_t kind) {
  Levels levels{};
  for (std::size_t trait = ReuseModel::kTraits; trait-- > 0;) {
    levels[trait] = kind % ReuseModel::kLevels[trait];
    kind /= ReuseModel::kLevels[trait];
  }
  return levels;
}

constexpr std::size_t pause_of(std::size_t idle, int age) {
  if (idle == 0) {
    return 0;
  }
  const WallMillis middle = (begin_of(age) + begin_of(age + 1)) / 2;
  const WallMillis sixteenths = 16 * middle / (kIdleMiddle[idle] * kSecond);
  const auto octave =
      static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(sixteenths)));
  return std::clamp<std::size_t>(octave, 1, kPauses - 1);
}

// By idle level and age.
constexpr auto kPauseOf = [] {
  std::array<std::array<std::size_t, ReuseModel::kAges>, kIdleMiddle.size()> pauses{};
  for (std::size_t idle = 0; idle < pauses.size(); ++idle) {
    for (int age = 0; age < ReuseModel::kAges; ++age) {
      pauses[idle][static_cast<std::size_t>(age)] = pause_of(idle, age);
    }
  }
  return pauses;
}();

// Of the blocks of one kind.
struct Seen {
  Levels levels{};
  Ages uses{};
  Ages seconds{};        // waited
  std::size_t ages = 0;  // nobody waited longer
};

// Whoever was seen at an age waited through all ages before, and through half of that one.
Seen seen_of(std::size_t kind,
             const ReuseModel::Counts& uses,
             const ReuseModel::Counts& ends,
             const ReuseModel::Counts& waiting) {
  Seen seen{.levels = levels_of(kind)};
  double older = 0;
  for (int age = ReuseModel::kAges - 1; age >= 0; --age) {
    const auto a = static_cast<std::size_t>(age);
    const double here = static_cast<double>(ends[a]) + static_cast<double>(waiting[a]);
    seen.uses[a] = static_cast<double>(uses[a]);
    seen.seconds[a] = (older + here / 2) * width_of(age);
    older += here;
    seen.ages = seen.ages == 0 && here > 0 ? a + 1 : seen.ages;
  }
  return seen;
}

// Hazards as products, fitted to what was seen.
class Fit {
 public:
  Fit(std::span<const Seen> seen, double sequence);

  Ages hazard(const Seen& seen) const;

 private:
  double ratio(const Seen& seen, std::size_t age) const;
  double traits(const Seen& seen) const;
  std::vector<double> succession() const;
  void fit_hazard();
  void fit_trait(std::size_t trait, std::span<const double> priors);

  template <typename GroupOf>
  void fit(std::span<double> ratios, std::span<const double> priors, const GroupOf& group_of);

  std::span<const Seen> seen_;  // by kind
  double weight_;
  double age_weight_;
  Ages hazard_{};
  std::array<std::vector<double>, ReuseModel::kTraits> ratios_;
  std::vector<double> pauses_;
};

Fit::Fit(std::span<const Seen> seen, double sequence)
    : seen_(seen),
      weight_(kWeight * sequence),
      age_weight_(kAgeWeight * sequence),
      pauses_(kPauses, 1.0) {
  for (std::size_t trait = 0; trait < ReuseModel::kTraits; ++trait) {
    ratios_[trait].assign(ReuseModel::kLevels[trait], 1.0);
  }
  fit_hazard();
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t trait = 0; trait < ReuseModel::kTraits; ++trait) {
      fit_trait(trait,
                trait == ReuseModel::kUses ? succession()
                                           : std::vector<double>(ratios_[trait].size(), 1.0));
    }
    fit(pauses_, std::vector<double>(kPauses, 1.0), [](const Seen& one, std::size_t age) {
      return kPauseOf[one.levels[ReuseModel::kIdle]][age];
    });
    fit_hazard();
  }
}

double Fit::traits(const Seen& seen) const {
  double product = 1;
  for (std::size_t trait = 0; trait < ReuseModel::kTraits; ++trait) {
    product *= ratios_[trait][seen.levels[trait]];
  }
  return product;
}

double Fit::ratio(const Seen& seen, std::size_t age) const {
  return pauses_[kPauseOf[seen.levels[ReuseModel::kIdle]][age]];
}

// How ahead of all each number of uses should be: by the rule of succession, such that they make
// up the whole.
std::vector<double> Fit::succession() const {
  double due = 1e-9;
  double weighed = due;
  for (const Seen& one : seen_) {
    for (std::size_t a = 0; a < one.ages; ++a) {
      due += one.seconds[a] * hazard_[a];
      weighed += one.seconds[a] * hazard_[a] * kSuccession[one.levels[ReuseModel::kUses]];
    }
  }
  std::vector<double> priors;
  for (const double each : kSuccession) {
    priors.push_back(each * due / weighed);
  }
  return priors;
}

void Fit::fit_hazard() {
  Ages uses{};
  Ages seconds{};
  for (const Seen& one : seen_) {
    const double product = traits(one);
    for (std::size_t a = 0; a < one.ages; ++a) {
      uses[a] += one.uses[a];
      seconds[a] += one.seconds[a] * product * ratio(one, a);
    }
  }
  double before = kMostRate;
  for (std::size_t a = 0; a < hazard_.size(); ++a) {
    const double prior = a < 2 ? before : before * kHalfOctave;
    hazard_[a] = (uses[a] + age_weight_) / (seconds[a] + age_weight_ / prior);
    before = hazard_[a];
  }
}

void Fit::fit_trait(std::size_t trait, std::span<const double> priors) {
  fit(ratios_[trait], priors, [trait](const Seen& one, std::size_t) { return one.levels[trait]; });
}

// A group's ratio: its uses over those that would be due without it.
template <typename GroupOf>
void Fit::fit(std::span<double> ratios, std::span<const double> priors, const GroupOf& group_of) {
  std::vector<double> uses(ratios.size());
  std::vector<double> due(ratios.size());
  for (const Seen& one : seen_) {
    const double product = traits(one);
    for (std::size_t a = 0; a < one.ages; ++a) {
      const std::size_t group = group_of(one, a);
      uses[group] += one.uses[a];
      due[group] += one.seconds[a] * hazard_[a] * product * ratio(one, a) / ratios[group];
    }
  }
  for (std::size_t g = 0; g < ratios.size(); ++g) {
    ratios[g] = (uses[g] + weight_ * priors[g]) / (due[g] + weight_);
  }
}

Ages Fit::hazard(const Seen& seen) const {
  const double product = traits(seen);
  Ages hazard{};
  for (std::size_t a = 0; a < hazard.size(); ++a) {
    const double expected = hazard_[a] * product * ratio(seen, a);
    hazard[a] = (seen.uses[a] + weight_) / (seen.seconds[a] + weight_ / expected);
  }
  return hazard;
}

// Ages that are kept together: whoever begins the first goes on to the last.
struct Stretch {
  double used = 0;     // the chance of a use in it
  double seconds = 0;  // kept in it, on average
};

// The best rate from every age on. From the last age to the first: one goes on as long as what
// follows has a better rate than all so far.
std::array<std::int64_t, ReuseModel::kAges> worth_of(const Ages& hazard) {
  std::array<std::int64_t, ReuseModel::kAges> worth{};
  std::vector<Stretch> later;  // the next one last
  for (int age = ReuseModel::kAges - 1; age >= 0; --age) {
    const auto a = static_cast<std::size_t>(age);
    const double stays = 1 / (1 + hazard[a] * width_of(age));
    Stretch here{.used = 1 - stays, .seconds = width_of(age) * (1 + stays) / 2};
    while (!later.empty() && later.back().used * here.seconds > here.used * later.back().seconds) {
      const double unused = 1 - here.used;
      here.used += unused * later.back().used;
      here.seconds += unused * later.back().seconds;
      later.pop_back();
    }
    worth[a] = static_cast<std::int64_t>(std::min(here.used / here.seconds, kMostRate) * kUnits);
    later.push_back(here);
  }
  return worth;
}

}  // namespace

std::size_t ReuseModel::kind(const BlockUse& use) {
  const std::array<int, 4> level{static_cast<int>(use.ttl),
                                 use_level(use.uses),
                                 idle_level(use.idle_before),
                                 turn_level(use.turn)};
  std::size_t kind = 0;
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    kind = kind * static_cast<std::size_t>(kLevels[i]) + static_cast<std::size_t>(level[i]);
  }
  return kind;
}

int ReuseModel::age_of(WallMillis waited) {
  if (waited < kSecond) {
    return 0;
  }
  const int octave =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(waited / kSecond))) - 1;
  const int age = 1 + 2 * octave;
  return std::min(kAges - 1, age + (waited >= begin_of(age + 1) ? 1 : 0));
}

ReuseModel::ReuseModel() : uses_(kKinds), ends_(kKinds), worth_(kKinds) {
  learn(std::vector<Counts>(kKinds), 1);
}

void ReuseModel::used(std::size_t kind, WallMillis waited) {
  ++uses_[kind][static_cast<std::size_t>(age_of(waited))];
  lost(kind, waited);
}

void ReuseModel::lost(std::size_t kind, WallMillis waited) {
  ++ends_[kind][static_cast<std::size_t>(age_of(waited))];
  ++counted_;
}

void ReuseModel::forget_half() {
  for (std::vector<Counts>* all : {&uses_, &ends_}) {
    for (Counts& counts : *all) {
      for (std::uint32_t& count : counts) {
        count /= 2;
      }
    }
  }
  counted_ /= 2;
}

void ReuseModel::learn(const std::vector<Counts>& waiting, double sequence) {
  CHECK(waiting.size() == kKinds && sequence > 0);
  if (counted_ > kMostCounted) {
    forget_half();
  }
  std::vector<Seen> seen;
  seen.reserve(kKinds);
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    seen.push_back(seen_of(kind, uses_[kind], ends_[kind], waiting[kind]));
  }
  const Fit fit(seen, sequence);
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    worth_[kind] = worth_of(fit.hazard(seen[kind]));
  }
}

std::int64_t ReuseModel::worth(std::size_t kind, WallMillis waited) const {
  const int age = age_of(waited);
  const auto a = static_cast<std::size_t>(age);
  if (age == kAges - 1) {
    return worth_[kind][a];
  }
  const WallMillis width = begin_of(age + 1) - begin_of(age);
  const WallMillis into = std::clamp<WallMillis>(waited - begin_of(age), 0, width);
  const std::int64_t change = worth_[kind][a + 1] - worth_[kind][a];
  return worth_[kind][a] + change / 1'024 * (into * 1'024 / width);
}

}  // namespace shoal
