// Temperatures against confidences that were bent by a known one.
#include "actors/policy/verify_temperature.h"

#include <cmath>
#include <doctest/doctest.h>
#include <vector>

#include "actors/policy/draw.h"

using namespace shoal;

namespace {

// Outcomes of a head that says `power` times the logits of the true chances.
std::vector<VerifyOutcome> outcomes(int count, int power) {
  Draw random(5);
  std::vector<VerifyOutcome> result;
  for (int i = 0; i < count; ++i) {
    VerifyOutcome outcome{.verified = kMostDrafts};
    bool accepts = true;
    for (float& confidence : outcome.confidence) {
      const double chance = 0.3 + 0.69 * random.unit();
      confidence = tempered(static_cast<float>(chance), 16 * power);
      accepts = accepts && random.unit() < chance;
      outcome.accepted += accepts ? 1 : 0;
    }
    result.push_back(outcome);
  }
  return result;
}

}  // namespace

TEST_CASE("a temperature bends a confidence as dividing its logit does") {
  for (const int temperature : {2, 8, 15, 17, 32, 64}) {
    for (const float c : {0.001F, 0.3F, 0.5F, 0.9F, 0.9999F}) {
      const double odds = std::pow(c / (1 - static_cast<double>(c)), temperature / 16.0);
      CHECK(tempered(c, temperature) == doctest::Approx(odds / (1 + odds)).epsilon(1e-5));
    }
  }
  CHECK(tempered(0.0F, 40) == 0);
  CHECK(tempered(1.0F, 40) == 1);
  CHECK(tempered(0.37F, 16) == 0.37F);
}

TEST_CASE("an overconfident head is cooled to what is observed") {
  const Temperatures fitted = fit_temperatures(outcomes(20'000, 2));
  CHECK(fitted[0] == 8);        // 16 / 2
  for (const int n : fitted) {  // fewer runs reach the later places
    CHECK(n >= 5);
    CHECK(n <= 11);
  }
}

TEST_CASE("a true head is left nearly as it is") {
  for (const int n : fit_temperatures(outcomes(20'000, 1))) {
    CHECK(n >= 14);
    CHECK(n <= 18);
  }
}

TEST_CASE("places that were hardly verified keep what the head says") {
  CHECK(fit_temperatures({}) == kUntempered);
  CHECK(fit_temperatures(outcomes(199, 3)) == kUntempered);
}

TEST_CASE("calibration error is how far chances are from what was observed") {
  // Half of these are accepted; the head says 0.9 of each.
  std::vector<VerifyOutcome> half;
  for (int i = 0; i < 100; ++i) {
    half.push_back({.confidence = {0.9F}, .verified = 1, .accepted = i % 2});
  }
  CHECK(calibration_error(half, kUntempered) == doctest::Approx(0.4));
  CHECK(calibration_error(half, {2, 16, 16, 16, 16}) < 0.1);
  CHECK(calibration_error({}, kUntempered) == 0);
  const auto bent = outcomes(20'000, 2);
  CHECK(calibration_error(bent, fit_temperatures(bent)) < 0.02);
  CHECK(calibration_error(bent, kUntempered) > 0.05);
}
