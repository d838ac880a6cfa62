// What a role will be asked for after the time that machines need to come up. Level and trend
// (Holt, damped) with three gains, of which the one counts that was nearest of late: load that
// moves smoothly is followed closely, noisy load is smoothed. What a day and a week before followed
// the same minute counts, too, where that was nearer than the trend; the largest is expected.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace shoal {

enum class SeasonUse : std::uint8_t {
  kWhereNearer,  // than the trend
  kAlways,
};

struct ForecastSpan {
  int horizon = 4;  // buckets ahead
  int day = 1'440;  // buckets; 0: nothing is the same every day
  SeasonUse seasons = SeasonUse::kWhereNearer;
};

class DemandForecast {
 public:
  explicit DemandForecast(const ForecastSpan& span);

  // Demand of the bucket that just ended, at least 0.
  void observe(double demand);

  // The most that is expected until the horizon.
  double expected() const { return made_.empty() ? 0 : made_.back(); }

  // By how much of what was expected demands may exceed it: two deviations of recent ones, 1/1000.
  int margin_permille() const;

 private:
  // A way to forecast: what it said lately, and how far from that the truth was.
  struct Guess {
    std::deque<double> made;  // the oldest is for now
    double error = 0;         // squares, recent ones more

    void judge(double demand, std::size_t horizon);

    void make(double value) { made.push_back(value); }
  };

  struct Trend {
    double level_gain;
    double trend_gain;
    double level = 0;
    double trend = 0;
    Guess guess{};
  };

  struct Season {
    std::size_t period;  // buckets
    Guess guess{};
  };

  void follow(Trend& trend, double demand) const;
  std::optional<double> repeat(const Season& season, double level) const;
  const Trend& nearest() const;
  void learn_surprise(double demand);

  ForecastSpan span_;
  std::array<Trend, 3> trends_{{{.8, .4}, {.5, .15}, {.25, .05}}};
  std::vector<Season> seasons_;  // a day, a week
  std::deque<double> past_;      // demands, a week and what smooths it
  std::deque<double> made_;      // what was expected, to be compared
  double surprise_ = 0;          // mean square of recent ones, in parts of what was expected
};

}  // namespace shoal
