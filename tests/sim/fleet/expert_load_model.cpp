// Draws expert loads. Counts are normal with the mean and variance of a Poisson count, rounded: as
// good as multinomial ones for the hundreds of tokens that an expert gets in a step.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "tests/sim/fleet/expert_load_source.h"

namespace shoal::sim {

namespace {

// Domains and their usual shares: code of agents, chat in two languages, mathematics, translation,
// text with pictures.
constexpr double kShares[] = {0.45, 0.18, 0.15, 0.08, 0.08, 0.06};
constexpr int kCaps = 8;  // passes that keep a probability below one expert of a token

// Box and Muller.
double normal(Draw& draw) {
  const double radius = std::sqrt(-2 * std::log(1 - draw.unit()));
  return radius * std::cos(2 * std::numbers::pi * draw.unit());
}

}  // namespace

ExpertLoadSource::ExpertLoadSource(const ExpertLoadModel& model, std::uint64_t seed)
    : model_(model),
      draw_(seed) {
  static_assert(std::size(kShares) == kDomains);
  draw_popularity();
  for (auto& domain : domains_) {
    domain.resize(popularity_.size());
    for (double& factor : domain) {
      factor = model_.domain_sigma * normal(draw_);
    }
  }
}

void ExpertLoadSource::draw_popularity() {
  for (std::int32_t layer = 0; layer < model_.layers; ++layer) {
    std::vector<std::int32_t> places(model_.experts);
    std::iota(places.begin(), places.end(), 0);
    for (std::int32_t i = model_.experts - 1; i > 0; --i) {
      std::swap(places[i], places[draw_.below(i + 1)]);
    }
    for (const std::int32_t place : places) {
      popularity_.push_back(-model_.power * std::log1p(place));
    }
  }
}

bool ExpertLoadSource::wander() {
  double sum = 0;
  const auto before = jump_left_;
  for (std::size_t d = 0; d < kDomains; ++d) {
    walk_[d] += -model_.share_pull * walk_[d] + model_.share_sigma * normal(draw_);
    jump_left_[d] = std::max<std::int64_t>(0, jump_left_[d] - 1);
  }
  if (draw_.unit() < model_.jump_chance) {
    const std::size_t domain = draw_.below(kDomains);
    const auto more = draw_.below(model_.jump_windows_max - model_.jump_windows_min + 1);
    jump_left_[domain] = model_.jump_windows_min + static_cast<std::int64_t>(more);
  }
  for (std::size_t d = 0; d < kDomains; ++d) {
    shares_[d] = kShares[d] * std::exp(walk_[d]) * (jump_left_[d] > 0 ? model_.jump : 1);
    sum += shares_[d];
  }
  bool changed = false;
  for (std::size_t d = 0; d < kDomains; ++d) {
    shares_[d] /= sum;
    changed |= (before[d] > 0) != (jump_left_[d] > 0);
  }
  return changed;
}

void ExpertLoadSource::find_probabilities() {
  for (std::size_t d = 0; d < kDomains; ++d) {
    auto& all = probabilities_[d];
    all.resize(popularity_.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = std::exp(popularity_[i] + domains_[d][i]);
    }
    for (std::int32_t layer = 0; layer < model_.layers; ++layer) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(layer) * model_.experts;
      const auto end = first + model_.experts;
      for (int pass = 0; pass <= kCaps; ++pass) {
        const double sum = std::accumulate(first, end, 0.0);
        std::for_each(first, end, [&](double& p) {
          p = pass < kCaps ? std::min(p / sum, 1.0 / model_.experts_of_token) : p / sum;
        });
      }
    }
  }
}

bool ExpertLoadSource::advance() {
  for (double& popularity : popularity_) {
    popularity += model_.drift * normal(draw_);
  }
  const bool changed = wander();
  find_probabilities();
  return changed;
}

// One by one where there are few.
std::int64_t ExpertLoadSource::some_of(std::int64_t count, double chance) {
  constexpr std::int64_t kMany = 1'000;
  if (count > kMany) {
    const auto n = static_cast<double>(count);
    const double drawn = n * chance + std::sqrt(n * chance * (1 - chance)) * normal(draw_);
    return std::clamp<std::int64_t>(std::llround(drawn), 0, count);
  }
  std::int64_t some = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    some += draw_.unit() < chance ? 1 : 0;
  }
  return some;
}

ExpertCounts ExpertLoadSource::counts(std::int64_t groups, std::int64_t group_tokens) {
  std::array<double, kDomains> assignments{};
  double share_left = 1;
  std::int64_t left = groups;
  for (std::size_t d = 0; d < kDomains; ++d) {
    const bool is_last = d + 1 == kDomains;
    const std::int64_t own =
        is_last ? left : some_of(left, std::clamp(shares_[d] / share_left, 0.0, 1.0));
    assignments[d] = static_cast<double>(own * group_tokens * model_.experts_of_token);
    left -= own;
    share_left -= shares_[d];
  }
  ExpertCounts counts;
  counts.reserve(popularity_.size());
  for (std::size_t i = 0; i < popularity_.size(); ++i) {
    double mean = 0;
    for (std::size_t d = 0; d < kDomains; ++d) {
      mean += assignments[d] * probabilities_[d][i];
    }
    const double drawn = mean + std::sqrt(mean) * normal(draw_);
    counts.push_back(std::max<std::int64_t>(0, std::llround(drawn)));
  }
  return counts;
}

ExpertLoadModel decode_loads() {
  return {};
}

ExpertLoadModel prefill_loads() {
  ExpertLoadModel model;
  model.tokens = 8 * 8'192;
  model.window_steps = 100;
  model.domain_tokens = 8'192;
  return model;
}

ExpertLoads draw_expert_loads(const ExpertLoadModel& model, std::uint64_t seed) {
  ExpertLoadSource source(model, seed);
  ExpertLoads loads{model.layers, model.experts, {}, {}};
  // In decode a window holds far more requests than a step, with as many tokens each.
  const std::int64_t groups = model.tokens / model.domain_tokens;
  for (std::int32_t window = 0; window < model.windows; ++window) {
    const bool changed = source.advance();
    const bool by_token = groups > 1'000;
    loads.windows.push_back(by_token
                                ? source.counts(model.tokens * model.window_steps, 1)
                                : source.counts(groups * model.window_steps, model.domain_tokens));
    const bool is_stepped = window > 0 && (changed || window % model.stepped_every == 0);
    for (std::int32_t step = 0; is_stepped && step < model.steps; ++step) {
      loads.steps[window].push_back(source.counts(groups, model.domain_tokens));
    }
  }
  return loads;
}

}  // namespace shoal::sim
