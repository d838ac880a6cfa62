// Every way of forecasting is judged by what it said a horizon ago.
#include "actors/policy/demand_forecast.h"

#include <algorithm>

#include "schemas/check.h"

namespace shoal {
namespace {

constexpr double kForget = 0.998;   // of errors, a bucket: half in six hours of minutes
constexpr std::size_t kSmooth = 2;  // buckets on each side of one of another day
constexpr double kMostRise = 4;     // that another day may predict: it may have had a hole
constexpr std::size_t kDaysAWeek = 7;
// The margin moves until a tenth of all demands are above it.
constexpr double kStep = 0.002;
constexpr double kAbove = 0.1;

double mean_around(const std::deque<double>& past, std::size_t place) {
  double sum = 0;
  for (std::size_t i = place - kSmooth; i <= place + kSmooth; ++i) {
    sum += past[i];
  }
  return sum / (2 * kSmooth + 1);
}

}  // namespace

DemandForecast::DemandForecast(const ForecastSpan& span) : span_(span) {
  CHECK(span.horizon > 0 && span.day >= 0);
  const auto day = static_cast<std::size_t>(span.day);
  if (day > static_cast<std::size_t>(span.horizon) + 2 * kSmooth) {
    seasons_ = {{.period = day}, {.period = kDaysAWeek * day}};
  }
}

void DemandForecast::Guess::judge(double demand, std::size_t horizon) {
  if (made.size() >= horizon) {
    const double distance = demand - made.front();
    error = kForget * error + (1 - kForget) * distance * distance;
    made.pop_front();
  }
}

void DemandForecast::follow(Trend& t, double demand) const {
  const double before = past_.empty() ? demand : t.level;
  const double predicted = before + t.trend;
  t.level = t.level_gain * demand + (1 - t.level_gain) * predicted;
  t.trend = t.trend_gain * (t.level - before) + (1 - t.trend_gain) * t.trend;
  const double ahead = t.level + t.trend * span_.horizon;
  t.guess.make(std::max({ahead, t.level, 0.0}));
}

std::optional<double> DemandForecast::repeat(const Season& season, double level) const {
  if (past_.size() < season.period + kSmooth + 1) {
    return std::nullopt;
  }
  const std::size_t then = past_.size() - 1 - season.period;
  const double from = mean_around(past_, then);
  const double to = mean_around(past_, then + static_cast<std::size_t>(span_.horizon));
  return from > 0 ? level * std::min(to / from, kMostRise) : level;
}

const DemandForecast::Trend& DemandForecast::nearest() const {
  return *std::min_element(trends_.begin(), trends_.end(), [](const Trend& a, const Trend& b) {
    return a.guess.error < b.guess.error;
  });
}

void DemandForecast::learn_margin(double demand) {
  if (made_.size() < static_cast<std::size_t>(span_.horizon)) {
    return;
  }
  const bool above = demand > made_.front() * (1 + margin_);
  margin_ = std::clamp(margin_ + kStep * ((above ? 1 : 0) - kAbove), 0.0, 1.0);
  made_.pop_front();
}

void DemandForecast::observe(double demand) {
  const auto horizon = static_cast<std::size_t>(span_.horizon);
  learn_margin(demand);
  for (Trend& trend : trends_) {
    trend.guess.judge(demand, horizon);
    follow(trend, demand);
  }
  past_.push_back(demand);
  const Trend& trend = nearest();
  double expected = trend.guess.made.back();
  for (Season& season : seasons_) {
    season.guess.judge(demand, horizon);
    const auto value = repeat(season, trend.level);
    season.guess.make(value.value_or(expected));
    const bool counts =
        span_.seasons == SeasonUse::kAlways || season.guess.error < trend.guess.error;
    expected = value && counts ? std::max(expected, *value) : expected;
  }
  made_.push_back(expected);
  if (!seasons_.empty() && past_.size() > seasons_.back().period + 2 * kSmooth + 1) {
    past_.pop_front();
  }
}

}  // namespace shoal
