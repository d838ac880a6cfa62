// sigmoid(logit(c) n / 16) = p / (1 + p) with p the n-th power of the 16th root of the odds: only
// operations that IEEE rounds, so the same on every machine.
#include "actors/policy/verify_temperature.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace shoal {
namespace {

constexpr int kColdest = 64;  // temperature 1/4
constexpr int kHottest = 2;   // temperature 8
constexpr std::size_t kBins = 15;
constexpr std::size_t kFewest = 200;

// A run of drafts up to some place.
struct Run {
  float before = 1;  // chance of the drafts before, calibrated
  float last = 0;    // confidence of the last, as the head says
  bool accepted = false;
};

std::size_t bin_of(double chance) {
  const auto bin =
      chance > 0 ? static_cast<std::size_t>(chance * static_cast<double>(kBins)) : std::size_t{0};
  return bin < kBins ? bin : kBins - 1;
}

// Chances less acceptances of the runs in each bin.
using Excess = std::array<double, kBins>;

double sum_of(const Excess& excess) {
  double sum = 0;
  for (const double bin : excess) {
    sum += std::abs(bin);
  }
  return sum;
}

bool is_sure(float confidence) {
  return !(confidence > 0 && confidence < 1);
}

double root_of_odds(float confidence) {
  double root = static_cast<double>(confidence) / (1 - static_cast<double>(confidence));
  for (int i = 0; i < 4; ++i) {
    root = std::sqrt(root);
  }
  return root;
}

// All temperatures in one go over the runs: the next power of a root is one product away.
class ErrorsByTemperature {
 public:
  void add(const Run& run) {
    const double accepted = run.accepted ? 1 : 0;
    const double root = is_sure(run.last) ? 1 : root_of_odds(run.last);
    double power = root;
    for (int n = kHottest; n <= kColdest; ++n) {
      power *= root;
      const double last = is_sure(run.last) ? run.last : power / (1 + power);
      const double chance = run.before * last;
      excess_[static_cast<std::size_t>(n)][bin_of(chance)] += chance - accepted;
    }
  }

  // Untempered where nothing is better.
  int best() const {
    int best = 16;
    for (int n = kHottest; n <= kColdest; ++n) {
      best = error(n) < error(best) ? n : best;
    }
    return best;
  }

 private:
  double error(int n) const { return sum_of(excess_[static_cast<std::size_t>(n)]); }

  std::array<Excess, kColdest + 1> excess_{};
};

int fit_place(std::span<const Run> runs) {
  ErrorsByTemperature errors;
  for (const Run& run : runs) {
    errors.add(run);
  }
  return errors.best();
}

}  // namespace

float tempered(float confidence, int temperature) {
  if (is_sure(confidence) || temperature == 16) {
    return confidence;
  }
  double root = root_of_odds(confidence);
  double power = 1;
  for (int n = temperature; n > 0; n /= 2) {
    power *= n % 2 == 1 ? root : 1;
    root *= root;
  }
  return static_cast<float>(power / (1 + power));
}

Temperatures fit_temperatures(std::span<const VerifyOutcome> outcomes) {
  Temperatures temperatures = kUntempered;
  std::vector<float> before(outcomes.size(), 1.0F);
  for (std::size_t place = 0; place < temperatures.size(); ++place) {
    const int drafts = static_cast<int>(place) + 1;
    std::vector<Run> runs;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (outcomes[i].verified >= drafts) {
        runs.push_back({before[i], outcomes[i].confidence[place], outcomes[i].accepted >= drafts});
      }
    }
    if (runs.size() >= kFewest) {
      temperatures[place] = fit_place(runs);
    }
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      before[i] *= tempered(outcomes[i].confidence[place], temperatures[place]);
    }
  }
  return temperatures;
}

double calibration_error(std::span<const VerifyOutcome> outcomes,
                         const Temperatures& temperatures) {
  std::array<Excess, kMostDrafts> excess{};
  std::int64_t runs = 0;
  for (const VerifyOutcome& outcome : outcomes) {
    double chance = 1;
    const int verified = std::clamp(outcome.verified, 0, kMostDrafts);
    for (int drafts = 1; drafts <= verified; ++drafts) {
      const auto place = static_cast<std::size_t>(drafts - 1);
      chance *= tempered(outcome.confidence[place], temperatures[place]);
      excess[place][bin_of(chance)] += chance - (outcome.accepted >= drafts ? 1.0 : 0.0);
      ++runs;
    }
  }
  double sum = 0;
  for (const Excess& place : excess) {
    sum += sum_of(place);
  }
  return runs > 0 ? sum / static_cast<double>(runs) : 0;
}

}  // namespace shoal
