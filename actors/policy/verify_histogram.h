// Drafts by the chance that the target accepts them and all before them, and which of a rank are
// the likeliest. Ranks tell each other counts, 1 KiB, instead of all their confidences.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "schemas/units.h"

namespace shoal {

inline constexpr int kMostDrafts = 5;

// Chance of each draft to be accepted when those before it were, calibrated.
using Confidences = std::array<float, kMostDrafts>;

// Chances as integers: 1 is 65,536.
inline constexpr std::int64_t kCertain = 1 << 16;

struct DraftedRequest {
  Confidences confidence{};
  int drafts = kMostDrafts;  // it has so many
  Nanos slack{0};            // until its next token is due; below 0: late
};

// Eight octaves of 32 buckets, the likeliest first.
struct DraftHistogram {
  static constexpr int kBuckets = 256;

  std::int64_t requests = 0;
  std::array<std::uint32_t, kBuckets> counts{};
  std::array<std::int64_t, kMostDrafts> by_place{};  // sum of the chances of first, second, ...
  std::int64_t owed = 0;         // drafts of late requests, which are not in counts
  std::int64_t owed_chance = 0;  // sum of their chances

  void add(const DraftedRequest& request);
  DraftHistogram& operator+=(const DraftHistogram& other);
};

// As of so many requests of the same kind; of none, there is nothing to tell what drafts they have.
DraftHistogram scaled(const DraftHistogram& histogram, std::int64_t requests);

// Chance of what is in a bucket; the last holds what is too unlikely to count.
constexpr std::array<std::int64_t, DraftHistogram::kBuckets> bucket_chances() {
  std::array<std::int64_t, DraftHistogram::kBuckets> chances{};
  for (std::size_t b = 0; b + 1 < chances.size(); ++b) {
    const auto below = (static_cast<std::int32_t>(b) << 18) + (1 << 17);
    const auto middle = std::bit_cast<float>(std::bit_cast<std::int32_t>(1.0F) - below);
    chances[b] = static_cast<std::int64_t>(middle * static_cast<float>(kCertain));
  }
  return chances;
}

inline constexpr auto kBucketChances = bucket_chances();

// The `room` likeliest drafts of `requests`; those of late ones before all others. Within a bucket
// of the histogram the request that is due first comes first.
void fill_by_chance(std::int64_t room,
                    std::span<const DraftedRequest> requests,
                    std::span<std::uint8_t> lengths);

}  // namespace shoal
