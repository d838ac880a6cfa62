// sigmoid(logit(c) n / 16) = p / (1 + p) with p the n-th power of the 16th root of the odds: only
// operations that IEEE rounds, so the same on every machine.
#include "actors/policy/verify_temperature.h"

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

// Mean distance between the chance of a run and how often it was accepted, over bins of the chance.
double calibration_error(std::span<const Run> runs, int temperature) {
  std::array<double, kBins> excess{};
  for (const Run& run : runs) {
    const float chance = run.before * tempered(run.last, temperature);
    const auto bin = static_cast<std::size_t>(chance * static_cast<float>(kBins));
    excess[bin < kBins ? bin : kBins - 1] += chance - (run.accepted ? 1.0 : 0.0);
  }
  double sum = 0;
  for (const double bin : excess) {
    sum += std::abs(bin);
  }
  return sum;
}

int fit_place(std::span<const Run> runs) {
  int best = 16;
  double least = calibration_error(runs, best);
  for (int temperature = kHottest; temperature <= kColdest; ++temperature) {
    const double error = calibration_error(runs, temperature);
    if (error < least) {
      best = temperature;
      least = error;
    }
  }
  return best;
}

}  // namespace

float tempered(float confidence, int temperature) {
  if (!(confidence > 0 && confidence < 1) || temperature == 16) {
    return confidence;
  }
  double root = static_cast<double>(confidence) / (1 - static_cast<double>(confidence));
  for (int i = 0; i < 4; ++i) {
    root = std::sqrt(root);
  }
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

}  // namespace shoal
