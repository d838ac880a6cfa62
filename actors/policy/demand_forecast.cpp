// Every way of forecasting is judged by what it said a horizon ago.
#include "actors/policy/demand_forecast.h"

#include <algorithm>
#include <cmath>

#include "schemas/check.h"

namespace shoal {
namespace {

constexpr double kForget = 0.998;   // of errors, a bucket: half in six hours of minutes
constexpr std::size_t kSmooth = 2;  // buckets on each side of one of another day
constexpr double kMostRise = 4;     // that another day may predict: it may have had a hole
constexpr std::size_t kDaysAWeek = 7;
constexpr double kDamped = 0.6;  // of a trend goes on until the horizon: most end or turn
// Surprises come in clusters: recent ones count for ten buckets or so, and none counts for more
// than these, or a load that was cut off and came back would scare for long.
constexpr double kNewest = 0.1;
constexpr double kMostBelow = -0.3;  // of what was expected
constexpr double kMostAbove = 0.5;
constexpr double kDeviations = 2;

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
  const double ahead = t.level + kDamped * t.trend * span_.horizon;
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

void DemandForecast::learn_surprise(double demand) {
  if (made_.size() < static_cast<std::size_t>(span_.horizon)) {
    return;
  }
  const double above = made_.front() > 0 ? demand / made_.front() - 1 : 0;
  const double counted = std::clamp(above, kMostBelow, kMostAbove);
  surprise_ += kNewest * (counted * counted - surprise_);
  made_.pop_front();
}

int DemandForecast::margin_permille() const {
  return static_cast<int>(kDeviations * std::sqrt(surprise_) * 1'000);
}

void DemandForecast::observe(double demand) {
  const auto horizon = static_cast<std::size_t>(span_.horizon);
  learn_surprise(demand);
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
