// Our own exp, log, sin and cos against the C library's.
#include "kernels/portable_math.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <random>

namespace shoal::kernels {

namespace {

// Distance in units of the last place of `want`.
double ulps(double got, double want) {
  const double step =
      std::nextafter(std::fabs(want), std::numeric_limits<double>::infinity()) - std::fabs(want);
  return std::fabs(got - want) / step;
}

constexpr int kSamples = 200000;
constexpr unsigned kSeed = 20261129;

}  // namespace

TEST_CASE("exp is within 2 ulp of libm over its whole range") {
  CAPTURE(kSeed);
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> wide(-708.0, 709.0);
  std::uniform_real_distribution<double> narrow(-1.0, 1.0);
  double worst = 0;
  for (int i = 0; i < kSamples; ++i) {
    for (const double x : {wide(random), narrow(random)}) {
      worst = std::max(worst, ulps(portable::exp(x), std::exp(x)));
    }
  }
  CHECK(worst <= 2.0);
  CHECK(portable::exp(0.0) == 1.0);
  CHECK(portable::exp(-1e30) == 0.0);
  CHECK(portable::exp(-std::numeric_limits<double>::infinity()) == 0.0);
  CHECK(portable::exp(1e30) == std::numeric_limits<double>::infinity());
}

TEST_CASE("log and log1p are within 2 ulp of libm, near 1 and far from it") {
  CAPTURE(kSeed);
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> exponent(-700.0, 700.0);
  std::uniform_real_distribution<double> near_one(0.5, 2.0);
  double worst = 0;
  double worst_log1p = 0;
  for (int i = 0; i < kSamples; ++i) {
    for (const double x : {std::exp(exponent(random)), near_one(random)}) {
      worst = std::max(worst, ulps(portable::log(x), std::log(x)));
    }
    const double small = std::exp(exponent(random) / 20.0);
    worst_log1p = std::max(worst_log1p, ulps(portable::log1p(small), std::log1p(small)));
  }
  CHECK(worst <= 2.0);
  CHECK(worst_log1p <= 2.0);
  CHECK(portable::log(1.0) == 0.0);
  CHECK(portable::log1p(0.0) == 0.0);
}

TEST_CASE("sin and cos are exact to 2^-50 up to an angle of 2^20") {
  CAPTURE(kSeed);
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> angle(-0x1p20, 0x1p20);
  double worst = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double x = angle(random) / (i % 2 == 0 ? 1.0 : 0x1p18);
    const portable::SinCos got = portable::sin_cos(x);
    worst = std::max({worst, std::fabs(got.sin - std::sin(x)), std::fabs(got.cos - std::cos(x))});
  }
  CHECK(worst <= 0x1p-50);
  CHECK(portable::sin_cos(0.0).sin == 0.0);
  CHECK(portable::sin_cos(0.0).cos == 1.0);
}

}  // namespace shoal::kernels
