// Fed rows, drafted sequences and passes are told to the fit as entries, rows and pairs of other
// kinds, which it learns beside the rows themselves.
#include "actors/policy/draft_costs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace shoal {
namespace {

// Pairs that stand for a draft pass, entries for a fed row: so many femtoseconds are a nanosecond.
constexpr std::int64_t kInFemtos = 1'000'000;
constexpr std::int64_t kMostCells = 128;  // of a table of times
constexpr double kPaceSteps = 32;         // in which most of a pace is forgotten
constexpr double kMostPaceError = 1.5;    // beyond, a step says nothing of the pace

CostCoefficients coefficients_of(const DraftCostTerms& terms) {
  return {.step = Nanos{std::llround(terms.step)},
          .row_ps = std::llround(terms.row * 1e3),
          .near_fs = std::llround(terms.feed),
          .deep_row_ps = std::llround(terms.sequence * 1e3),
          .deep_pair_fs = std::llround(terms.pass)};
}

DraftCostTerms terms_of(const CostCoefficients& k) {
  return {.step = static_cast<double>(k.step.count()),
          .row = static_cast<double>(k.row_ps) / 1e3,
          .feed = static_cast<double>(k.near_fs),
          .pass = static_cast<double>(k.deep_pair_fs),
          .sequence = static_cast<double>(k.deep_row_ps) / 1e3};
}

RankLoad load_of(const RankDrafts& rank) {
  return {.rows = static_cast<double>(rank.rows),
          .fed = rank.feeds ? static_cast<double>(rank.rows) : 0,
          .drafted = static_cast<double>(rank.drafted)};
}

bool is_sane(const RankDrafts& rank) {
  return rank.requests > 0 && rank.rows >= rank.requests && rank.drafted >= 0 &&
         rank.compute > Nanos{0};
}

}  // namespace

DraftCosts::DraftCosts(const DraftCostTerms& prior)
    : fit_(coefficients_of(prior)),
      terms_(terms_of(fit_.model().coefficients())) {}

void DraftCosts::add(std::span<const RankDrafts> ranks) {
  const RankDrafts* slowest = nullptr;
  for (const RankDrafts& rank : ranks) {
    if (is_sane(rank) && (slowest == nullptr || rank.compute > slowest->compute)) {
      slowest = &rank;
    }
  }
  if (slowest == nullptr) {
    return;
  }
  fit_.add({.rows = slowest->rows,
            .near = slowest->feeds ? slowest->rows * kInFemtos : 0,
            .deep_rows = slowest->drafted,
            .deep_pairs = slowest->drafted > 0 ? kInFemtos : 0},
           slowest->compute);
  terms_ = terms_of(fit_.model().coefficients());
  follow_paces(ranks);
}

void DraftCosts::follow_paces(std::span<const RankDrafts> ranks) {
  paces_.resize(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (!is_sane(ranks[r])) {
      continue;
    }
    Pace& pace = paces_[r];
    const double expected = std::max(alone(load_of(ranks[r])), 1.0);
    double part = static_cast<double>(ranks[r].compute.count()) / expected;
    if (pace.steps > 0) {
      part = std::clamp(part, pace.part / kMostPaceError, pace.part * kMostPaceError);
    }
    ++pace.steps;
    pace.part += (part - pace.part) / std::min(static_cast<double>(pace.steps), kPaceSteps);
  }
}

double DraftCosts::alone(const RankLoad& load) const {
  return terms_.step + terms_.row * load.rows + terms_.feed * load.fed +
         terms_.sequence * load.drafted + (load.drafted > 0 ? terms_.pass : 0);
}

double DraftCosts::step(std::span<const RankLoad> ranks) const {
  double longest = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].rows > 0) {
      longest = std::max(longest, pace(r) * alone(ranks[r]));
    }
  }
  return std::max(longest, 1.0);
}

VerifyCosts DraftCosts::verify(std::span<const std::int64_t> requests_of_rank) const {
  std::int64_t fullest = 1;
  for (const std::int64_t requests : requests_of_rank) {
    fullest = std::max(fullest, requests);
  }
  const std::int64_t most = fullest * (1 + kMostDrafts);
  const auto grain = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>((most + kMostCells - 1) / kMostCells)));
  std::vector<Nanos> times(static_cast<std::size_t>((most + grain - 1) / grain + 1));
  std::vector<RankLoad> loads(requests_of_rank.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::int64_t level = static_cast<std::int64_t>(i) * grain;
    for (std::size_t r = 0; r < loads.size(); ++r) {
      const std::int64_t requests = requests_of_rank[r];
      const std::int64_t own = std::clamp(level, requests, requests * (1 + kMostDrafts));
      loads[r] = {.rows = static_cast<double>(own),
                  .fed = static_cast<double>(own),
                  .drafted = static_cast<double>(requests)};
    }
    times[i] = Nanos{std::llround(step(loads))};
  }
  const Nanos fixed = times.front();
  for (Nanos& time : times) {
    time -= fixed;
  }
  return {.fixed = fixed, .rank = StepTable(grain, std::move(times)), .group = StepTable{}};
}

}  // namespace shoal
