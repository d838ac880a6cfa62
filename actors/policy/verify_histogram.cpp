// Buckets are read off the bits of a float, whose exponent and first five bits of mantissa are a
// logarithm: no function of libm, so the same bucket on every machine.
#include "actors/policy/verify_histogram.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "schemas/check.h"

namespace shoal {
namespace {

// Not a number, too: 0.
float chance_of(float confidence) {
  return confidence > 0 ? std::min(confidence, 1.0F) : 0.0F;
}

int drafts_of(const DraftedRequest& request) {
  return std::clamp(request.drafts, 0, kMostDrafts);
}

int bucket_of(float chance) {
  constexpr auto kOne = std::bit_cast<std::int32_t>(1.0F);
  const std::int32_t below = (kOne - std::bit_cast<std::int32_t>(chance)) >> 18;
  return std::clamp(below, 0, DraftHistogram::kBuckets - 1);
}

bool is_late(const DraftedRequest& request) {
  return request.slack.count() < 0;
}

// Requests in the order in which they are due.
void sort_by_slack(std::vector<std::size_t>& order, std::span<const DraftedRequest> requests) {
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return requests[a].slack != requests[b].slack ? requests[a].slack < requests[b].slack : a < b;
  });
}

// Buckets of the drafts of requests that are in time; of late ones kNone.
struct CurrentDrafts {
  // Beyond all buckets: there is no such draft.
  static constexpr std::uint16_t kNone = DraftHistogram::kBuckets;

  std::vector<std::array<std::uint16_t, kMostDrafts>> buckets;  // of each request
  std::array<std::uint32_t, DraftHistogram::kBuckets> counts{};
  std::vector<std::size_t> late;

  explicit CurrentDrafts(std::span<const DraftedRequest> requests) : buckets(requests.size()) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      buckets[i].fill(kNone);
      is_late(requests[i]) ? late.push_back(i) : add(requests[i], buckets[i]);
    }
  }

  void add(const DraftedRequest& request, std::array<std::uint16_t, kMostDrafts>& own) {
    float chance = 1;
    for (int j = 0; j < drafts_of(request); ++j) {
      const auto place = static_cast<std::size_t>(j);
      chance *= chance_of(request.confidence[place]);
      own[place] = static_cast<std::uint16_t>(bucket_of(chance));
      ++counts[own[place]];
    }
  }

  // Drafts of a request in buckets before `end`: the first ones, as chances fall.
  std::uint8_t before(std::size_t request, std::size_t end) const {
    int count = 0;
    for (const std::uint16_t bucket : buckets[request]) {
      count += bucket < end ? 1 : 0;
    }
    return static_cast<std::uint8_t>(count);
  }
};

std::int64_t fill_late(std::int64_t room,
                       std::vector<std::size_t>& late,
                       std::span<const DraftedRequest> requests,
                       std::span<std::uint8_t> lengths) {
  sort_by_slack(late, requests);
  for (const std::size_t i : late) {
    const auto drafts = std::min<std::int64_t>(drafts_of(requests[i]), room);
    lengths[i] = static_cast<std::uint8_t>(drafts);
    room -= drafts;
  }
  return room;
}

// All drafts in buckets before `last`. Returns the requests that have some in it, as they are due.
std::vector<std::size_t> fill_before(std::size_t last,
                                     const CurrentDrafts& drafts,
                                     std::span<const DraftedRequest> requests,
                                     std::span<std::uint8_t> lengths) {
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (is_late(requests[i])) {
      continue;
    }
    lengths[i] = drafts.before(i, last);
    if (drafts.before(i, last + 1) > lengths[i]) {
      others.push_back(i);
    }
  }
  sort_by_slack(others, requests);
  return others;
}

}  // namespace

void DraftHistogram::add(const DraftedRequest& request) {
  ++requests;
  float chance = 1;
  for (int j = 0; j < drafts_of(request); ++j) {
    const auto place = static_cast<std::size_t>(j);
    chance *= chance_of(request.confidence[place]);
    const auto whole = static_cast<std::int64_t>(chance * static_cast<float>(kCertain));
    by_place[place] += whole;
    if (is_late(request)) {
      ++owed;
      owed_chance += whole;
    } else {
      ++counts[static_cast<std::size_t>(bucket_of(chance))];
    }
  }
}

DraftHistogram& DraftHistogram::operator+=(const DraftHistogram& other) {
  requests += other.requests;
  owed += other.owed;
  owed_chance += other.owed_chance;
  for (std::size_t b = 0; b < counts.size(); ++b) {
    counts[b] += other.counts[b];
  }
  for (std::size_t place = 0; place < by_place.size(); ++place) {
    by_place[place] += other.by_place[place];
  }
  return *this;
}

// Counts are rounded by their sums from the likeliest on, so that none is lost.
DraftHistogram scaled(const DraftHistogram& histogram, std::int64_t requests) {
  if (histogram.requests == requests) {
    return histogram;
  }
  DraftHistogram result{.requests = requests};
  if (histogram.requests == 0) {
    return result;
  }
  const auto part = [&](std::int64_t count) {
    return (count * requests + histogram.requests / 2) / histogram.requests;
  };
  std::int64_t sum = 0;
  for (std::size_t b = 0; b < histogram.counts.size(); ++b) {
    const std::int64_t before = part(sum);
    sum += histogram.counts[b];
    result.counts[b] = static_cast<std::uint32_t>(part(sum) - before);
  }
  for (std::size_t place = 0; place < result.by_place.size(); ++place) {
    result.by_place[place] = part(histogram.by_place[place]);
  }
  result.owed = part(histogram.owed);
  result.owed_chance = part(histogram.owed_chance);
  return result;
}

void fill_by_chance(std::int64_t room,
                    std::span<const DraftedRequest> requests,
                    std::span<std::uint8_t> lengths) {
  CHECK(lengths.size() == requests.size());
  CurrentDrafts drafts(requests);
  room = fill_late(std::max<std::int64_t>(room, 0), drafts.late, requests, lengths);
  std::size_t last = 0;  // the bucket that is taken in part
  while (last + 1 < drafts.counts.size() && drafts.counts[last] <= room) {
    room -= drafts.counts[last++];
  }
  for (const std::size_t i : fill_before(last, drafts, requests, lengths)) {
    const std::int64_t in_last = drafts.before(i, last + 1) - lengths[i];
    const std::int64_t taken = std::min(in_last, room);
    lengths[i] = static_cast<std::uint8_t>(lengths[i] + taken);
    room -= taken;
  }
}

}  // namespace shoal
