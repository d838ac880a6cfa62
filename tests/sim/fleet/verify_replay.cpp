// Sizes come from what was drawn two steps before, so that a planner sees no more than a real one.
#include "tests/sim/fleet/verify_replay.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>

#include "actors/policy/verify_temperature.h"

namespace shoal::sim {
namespace {

constexpr double kFixedNs = 10e6;
constexpr std::size_t kPool = 1 << 17;
constexpr int kLag = 2;  // steps

// Chance that the first j drafts are accepted: published lengths for this family of models.
constexpr std::array<double, kMostDrafts> kSurvival{.84, .67, .50, .35, .25};

double beta(double a, double b, std::mt19937_64& random) {
  std::gamma_distribution<double> left(a);
  std::gamma_distribution<double> right(b);
  const double x = left(random);
  const double y = right(random);
  return x + y > 0 ? x / (x + y) : 0;
}

void temper(Confidences& confidences, const Temperatures& temperatures) {
  for (std::size_t j = 0; j < confidences.size(); ++j) {
    confidences[j] = tempered(confidences[j], temperatures[j]);
  }
}

// What is known after a while in which all drafts were verified.
Temperatures fit(DraftSource source) {
  constexpr int kOutcomes = 8'192;
  const DraftSource::Step step = source.draw(kOutcomes);
  std::vector<VerifyOutcome> outcomes;
  for (std::size_t i = 0; i < step.requests.size(); ++i) {
    outcomes.push_back({step.requests[i].confidence, kMostDrafts, step.acceptable[i]});
  }
  return fit_temperatures(outcomes);
}

// One step of all ranks.
struct GroupStep {
  std::vector<DraftSource::Step> ranks;
  std::vector<DraftHistogram> histograms;
};

GroupStep draw_step(DraftSource& source, const VerifyLoad& load, const Temperatures& temperatures) {
  GroupStep step;
  for (int r = 0; r < load.ranks; ++r) {
    step.ranks.push_back(source.draw(requests_of(load, r)));
    DraftHistogram& histogram = step.histograms.emplace_back();
    for (DraftedRequest& request : step.ranks.back().requests) {
      temper(request.confidence, temperatures);
      histogram.add(request);
    }
  }
  return step;
}

struct Sums {
  std::int64_t tokens = 0;
  std::int64_t drafts = 0;
  std::int64_t requests = 0;
  Nanos time{0};
};

// Verifies as planned and counts what the target accepts.
void run(const VerifyPlanner& planner,
         const VerifyPlan& plan,
         const GroupStep& step,
         const VerifyCosts& costs,
         Sums& sums) {
  std::int64_t fullest = 0;
  std::int64_t verified = 0;
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    const auto& [requests, acceptable] = step.ranks[r];
    std::vector<std::uint8_t> lengths(requests.size());
    planner.fill(plan, r, requests, lengths);
    std::int64_t tokens = std::ssize(requests);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      tokens += lengths[i];
      sums.tokens += 1 + std::min(lengths[i], acceptable[i]);
      sums.drafts += lengths[i];
    }
    sums.requests += std::ssize(requests);
    fullest = std::max(fullest, tokens);
    verified += tokens;
  }
  sums.time += costs.step(fullest, verified);
}

}  // namespace

StepTable step_line(double ns_a_token, std::int64_t tokens, std::int64_t grain) {
  std::vector<Nanos> times;
  for (std::int64_t at = 0; at < tokens + grain; at += grain) {
    times.emplace_back(std::llround(ns_a_token * static_cast<double>(at)));
  }
  return {grain, std::move(times)};
}

int requests_of(const VerifyLoad& load, int rank) {
  const double place = load.ranks > 1 ? 2.0 * rank / (load.ranks - 1) - 1 : 0;
  return static_cast<int>(std::lround(load.requests * (1 + load.spread * place)));
}

VerifyCosts verify_costs(const VerifyLoad& load) {
  const double full = load.requests * (1.0 + kMostDrafts);
  const double most = full * (1 + load.spread);
  const double variable_ns = load.variable * kFixedNs;
  return {.fixed = Nanos{std::llround(kFixedNs)},
          .rank = step_line(load.rank_share * variable_ns / full, std::llround(most), load.grain),
          .group = step_line((1 - load.rank_share) * variable_ns / (full * load.ranks),
                             std::llround(full * load.ranks),
                             load.grain)};
}

DraftSource::DraftSource(double concentration, std::uint64_t seed, double confidence)
    : pool_(
          std::make_shared<const std::vector<Drafted>>(draw_pool(concentration, seed, confidence))),
      random_(seed) {}

std::vector<DraftSource::Drafted> DraftSource::draw_pool(double concentration,
                                                         std::uint64_t seed,
                                                         double confidence) {
  std::mt19937_64 random(seed);
  std::vector<Drafted> pool(kPool);
  for (Drafted& drafted : pool) {
    double before = 1;
    for (std::size_t j = 0; j < kSurvival.size(); ++j) {
      const double mean = kSurvival[j] / before;
      const double chance = beta(mean * concentration, (1 - mean) * concentration, random);
      const double sure = std::pow(chance, confidence);
      drafted.chances[j] = static_cast<float>(chance);
      drafted.said[j] = static_cast<float>(sure / (sure + std::pow(1 - chance, confidence)));
      before = kSurvival[j];
    }
  }
  return pool;
}

DraftSource::Step DraftSource::draw(int requests) {
  Step step;
  for (int i = 0; i < requests; ++i) {
    const Drafted& drafted = (*pool_)[random_.below(pool_->size())];
    step.requests.push_back({.confidence = drafted.said});
    const double luck = random_.unit();
    double survival = 1;
    std::uint8_t acceptable = 0;
    for (const float chance : drafted.chances) {
      survival *= chance;
      acceptable = static_cast<std::uint8_t>(acceptable + (luck < survival ? 1 : 0));
    }
    step.acceptable.push_back(acceptable);
  }
  return step;
}

VerifyFigures replay_verify(VerifyPlanner& planner, const VerifyLoad& load, DraftSource source) {
  const VerifyCosts costs = verify_costs(load);
  const Temperatures temperatures = load.calibrates ? fit(source) : kUntempered;
  std::array<GroupStep, kLag + 1> window;
  for (int i = 0; i < kLag; ++i) {
    window[static_cast<std::size_t>(i + 1)] = draw_step(source, load, temperatures);
  }
  Sums sums;
  for (int i = 0; i < load.steps; ++i) {
    std::rotate(window.begin(), window.begin() + 1, window.end());
    window.back() = draw_step(source, load, temperatures);
    run(planner, planner.plan(window.front().histograms, costs), window.back(), costs, sums);
  }
  const auto requests = static_cast<double>(std::max<std::int64_t>(sums.requests, 1));
  const auto ns = static_cast<double>(std::max<std::int64_t>(sums.time.count(), 1));
  return {.tokens_per_s = static_cast<double>(sums.tokens) / ns * 1e9,
          .drafts = static_cast<double>(sums.drafts) / requests,
          .accepted = static_cast<double>(sums.tokens) / requests};
}

}  // namespace shoal::sim
