// Numbers that look random and are the same on every machine: SplitMix64 (Steele, Lea, Flood 2014).
// Policies that sample draw from it, so that a seed fixes every decision.
#pragma once

#include <cstdint>

namespace shoal {

class Draw {
 public:
  explicit constexpr Draw(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t next() {
    std::uint64_t x = state_ += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }

  // One of [0, bound), 0 < bound <= 2^32. Multiply and shift: no number is likelier than another by
  // more than bound / 2^32.
  constexpr std::uint64_t below(std::uint64_t bound) { return (next() >> 32) * bound >> 32; }

  // One of [0, 1), in steps of 2^-53.
  constexpr double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace shoal
