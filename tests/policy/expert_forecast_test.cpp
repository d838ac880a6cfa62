// What is foretold, from windows and from steps.
#include "actors/policy/expert_forecast.h"

#include <doctest/doctest.h>
#include <numeric>

using namespace shoal;

namespace {

using Counts = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("before anything was seen, loads are even") {
  const ExpertForecast forecast(2, 4);
  CHECK(forecast.loads() == std::vector<double>(8, 0.25));
  CHECK(forecast.step_spread() == 0);
}

TEST_CASE("loads of a layer sum to one, whatever was seen") {
  ExpertForecast forecast(2, 3);
  forecast.saw_window(Counts{1, 2, 3, 0, 0, 0});
  forecast.saw_window(Counts{5, 0, 0, std::int64_t{1} << 60, -7, 9});
  forecast.saw_step(Counts{0, 0, 0, 0, 4, 0});
  const auto loads = forecast.loads();
  for (const double load : loads) {
    CHECK(load > 0);
  }
  CHECK(std::accumulate(loads.begin(), loads.begin() + 3, 0.0) == doctest::Approx(1));
  CHECK(std::accumulate(loads.begin() + 3, loads.end(), 0.0) == doctest::Approx(1));
}

TEST_CASE("what drifts is foretold by the last window, what only jitters by the mean") {
  ExpertForecast drifting(1, 2);
  ExpertForecast jittering(1, 2);
  for (int window = 0; window < 20; ++window) {
    drifting.saw_window(Counts{1'000 + 100 * window, 10'000});
    jittering.saw_window(Counts{window % 2 == 0 ? 900 : 1'100, 1'000});
  }
  CHECK(drifting.loads()[0] > 2'800.0 / 12'800);
  CHECK(jittering.loads()[0] == doctest::Approx(0.5).epsilon(0.02));
}

TEST_CASE("a change of domain is followed after a few steps, noise is not") {
  ExpertForecast forecast(1, 2);
  for (int window = 0; window < 5; ++window) {
    forecast.saw_window(Counts{50'000 + window, 50'000});
  }
  ExpertForecast changed = forecast;
  for (int step = 0; step < 4; ++step) {
    forecast.saw_step(Counts{step % 2 == 0 ? 80 : 120, 100});
    changed.saw_step(Counts{step % 2 == 0 ? 290 : 310, 100});
  }
  CHECK(forecast.loads()[0] == doctest::Approx(0.5).epsilon(0.01));
  CHECK(changed.loads()[0] == doctest::Approx(0.75).epsilon(0.01));
  CHECK(changed.error() < 0.05);
}

TEST_CASE("after a window of another domain the windows before it say nothing") {
  ExpertForecast forecast(1, 2);
  for (int window = 0; window < 20; ++window) {  // the mean foretells best
    forecast.saw_window(Counts{window % 2 == 0 ? 900 : 1'100, 1'000});
  }
  forecast.saw_window(Counts{3'000, 1'000});
  CHECK(forecast.loads()[0] == doctest::Approx(0.75).epsilon(0.001));
}

TEST_CASE("the error is what forecasts were wrong by, the spread what steps differ by") {
  ExpertForecast forecast(1, 2);
  for (int window = 0; window < 30; ++window) {
    forecast.saw_window(Counts{window % 2 == 0 ? 450 : 550, window % 2 == 0 ? 550 : 450});
  }
  CHECK(forecast.error() > 0.08);
  CHECK(forecast.error() < 0.12);
  forecast.saw_step(Counts{400, 600});
  forecast.saw_step(Counts{600, 400});
  CHECK(forecast.step_spread() == doctest::Approx(0.283).epsilon(0.01));
  forecast.saw_window(Counts{500, 500});
  CHECK(forecast.step_spread() == doctest::Approx(0.283).epsilon(0.01));
}
