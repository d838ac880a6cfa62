// exp, log, sin and cos in double from additions, multiplications and divisions only: the same bits
// on every machine and C library.
//
// Accuracy against the exact value: exp, log and log1p 1 ulp, sin and cos 2^-50 absolute. Free of
// branches, so loops vectorise.
#pragma once

#include <bit>
#include <cstdint>

namespace shoal::kernels::portable {

// Adding and subtracting it rounds to the nearest integer, which then stands in the low 32 bits of
// the sum.
inline constexpr double kRoundToInteger = 0x1.8p52;
// ln 2 in two parts; the first has 21 trailing zero bits, so its product with an exponent is exact.
inline constexpr double kLn2High = 0x1.62e42feep-1;
inline constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// -1022 <= k <= 1023. 32-bit arithmetic, because AVX2 has no arithmetic shift of 64-bit lanes.
inline double power_of_two(std::int32_t k) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(static_cast<std::uint32_t>(k + 1023))
                               << 52);
}

// yes if `condition`, else no; a branch would keep loops from being vectorised.
inline double select(bool condition, double yes, double no) {
  const std::uint64_t mask = 0u - static_cast<std::uint64_t>(condition);
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(yes) & mask) |
                               (std::bit_cast<std::uint64_t>(no) & ~mask));
}

// Any x; overflows to infinity, underflows to zero.
inline double exp(double x) {
  x = select(x < -746.0, -746.0, x);
  x = select(x > 710.0, 710.0, x);
  const double shifted = x * 0x1.71547652b82fep+0 + kRoundToInteger;
  const auto k = static_cast<std::int32_t>(std::bit_cast<std::uint64_t>(shifted));
  const double whole = shifted - kRoundToInteger;
  const double r = (x - whole * kLn2High) - whole * kLn2Low;  // |r| <= ln(2) / 2
  double tail = 1.0 / 6227020800.0;                           // Taylor series to r^13 / 13!
  tail = tail * r + 1.0 / 479001600.0;
  tail = tail * r + 1.0 / 39916800.0;
  tail = tail * r + 1.0 / 3628800.0;
  tail = tail * r + 1.0 / 362880.0;
  tail = tail * r + 1.0 / 40320.0;
  tail = tail * r + 1.0 / 5040.0;
  tail = tail * r + 1.0 / 720.0;
  tail = tail * r + 1.0 / 120.0;
  tail = tail * r + 1.0 / 24.0;
  tail = tail * r + 1.0 / 6.0;
  tail = tail * r + 0.5;
  // Two factors, because 2^k alone leaves the range where the result does not.
  const std::int32_t half = k >> 1;
  return (1.0 + (r + r * r * tail)) * power_of_two(half) * power_of_two(k - half);
}

// x positive, finite and normal.
inline double log(double x) {
  constexpr std::uint64_t kSqrtHalf = 0x3FE6A09E667F3BCDu;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::int64_t k = static_cast<std::int64_t>(bits - kSqrtHalf) >> 52;
  const double f = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(k) << 52)) - 1.0;
  const double s = f / (2.0 + f);  // log(1 + f) = 2 atanh(s), |s| <= 0.1716
  const double z = s * s;
  double series = 2.0 / 23.0;
  series = series * z + 2.0 / 21.0;
  series = series * z + 2.0 / 19.0;
  series = series * z + 2.0 / 17.0;
  series = series * z + 2.0 / 15.0;
  series = series * z + 2.0 / 13.0;
  series = series * z + 2.0 / 11.0;
  series = series * z + 2.0 / 9.0;
  series = series * z + 2.0 / 7.0;
  series = series * z + 2.0 / 5.0;
  series = series * z + 2.0 / 3.0;
  const double exponent = static_cast<double>(static_cast<std::int32_t>(k));
  return exponent * kLn2High + (f - (s * (f - series * z) - exponent * kLn2Low));
}

// x >= 0 and finite.
inline double log1p(double x) {
  const double y = 1.0 + x;
  return log(y) + (x - (y - 1.0)) / y;
}

struct SinCos {
  double sin = 0;
  double cos = 0;
};

// |x| <= 2^20 (positions up to 1,048,576 at frequency 1).
inline SinCos sin_cos(double x) {
  const double shifted = x * 0x1.45f306dc9c883p-1 + kRoundToInteger;
  const auto quadrant = static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(shifted));
  const double whole = shifted - kRoundToInteger;
  // pi / 2 in three parts; products of the first two (33 bits each) with 20-bit integers are exact.
  const double r =
      ((x - whole * 0x1.921fb544p+0) - whole * 0x1.0b4611a6p-34) - whole * 0x1.3198a2e037073p-69;
  const double z = r * r;
  double s = 1.0 / 355687428096000.0;  // Taylor series to r^17 and r^16
  s = s * z - 1.0 / 1307674368000.0;
  s = s * z + 1.0 / 6227020800.0;
  s = s * z - 1.0 / 39916800.0;
  s = s * z + 1.0 / 362880.0;
  s = s * z - 1.0 / 5040.0;
  s = s * z + 1.0 / 120.0;
  s = s * z - 1.0 / 6.0;
  s = r + r * z * s;
  double c = 1.0 / 20922789888000.0;
  c = c * z - 1.0 / 87178291200.0;
  c = c * z + 1.0 / 479001600.0;
  c = c * z - 1.0 / 3628800.0;
  c = c * z + 1.0 / 40320.0;
  c = c * z - 1.0 / 720.0;
  c = c * z + 1.0 / 24.0;
  c = c * z - 0.5;
  c = 1.0 + z * c;
  const double sine = (quadrant & 1u) != 0 ? c : s;
  const double cosine = (quadrant & 1u) != 0 ? s : c;
  return {(quadrant & 2u) != 0 ? -sine : sine, ((quadrant + 1u) & 2u) != 0 ? -cosine : cosine};
}

}  // namespace shoal::kernels::portable
