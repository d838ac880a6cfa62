// Which of several equal places a key belongs to: the one with the highest weight. A place that
// goes away moves only its own keys (Thaler and Ravishankar, 1998).
#pragma once

#include <cstdint>

namespace shoal {

// SplitMix64's finaliser (Steele, Lea, Flood 2014) over both.
constexpr std::uint64_t rendezvous_weight(std::uint64_t key, std::uint64_t place) {
  std::uint64_t x = key ^ ((place + 1) * 0x9E3779B97F4A7C15ULL);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace shoal
