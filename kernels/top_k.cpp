// Top-k by threshold: the k-th best score by selection, then one pass in position order, which also
// settles ties.
#include "kernels/top_k.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>

namespace shoal::kernels {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Scores above `value` are taken, and the first `ties` of those equal to it.
struct Threshold {
  float value = kNever;
  std::int64_t ties = 0;
};

Threshold find_threshold(std::span<const float> scores, std::int64_t k) {
  thread_local std::vector<float> finite;
  finite.clear();
  std::copy_if(
      scores.begin(), scores.end(), std::back_inserter(finite), [](float s) { return s > kNever; });
  if (static_cast<std::int64_t>(finite.size()) <= k) {
    return {};
  }
  const auto kth = finite.begin() + (k - 1);
  std::nth_element(finite.begin(), kth, finite.end(), std::greater<>());
  return {*kth, 1 + std::count(finite.begin(), kth, *kth)};
}

// Calls visit(index) for the at most k best, ascending.
template <class Visit>
void visit_top(std::span<const float> scores, std::int64_t k, const Visit& visit) {
  if (k <= 0) {
    return;
  }
  Threshold threshold = find_threshold(scores, k);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > threshold.value || (scores[i] == threshold.value && threshold.ties-- > 0)) {
      visit(static_cast<std::int64_t>(i));
    }
  }
}

}  // namespace

std::vector<std::int64_t> select_top(std::span<const float> scores, std::int64_t k) {
  std::vector<std::int64_t> positions;
  visit_top(scores, k, [&](std::int64_t i) { positions.push_back(i); });
  return positions;
}

std::vector<std::int64_t> select_top(std::span<const float> scores,
                                     std::span<const EntryRange> ranges,
                                     std::int64_t k) {
  std::vector<std::int64_t> positions;
  auto range = ranges.begin();
  std::int64_t begin = 0;  // index of the range's first score
  visit_top(scores, k, [&](std::int64_t i) {
    while (i >= begin + range->count) {
      begin += range->count;
      ++range;
    }
    positions.push_back(range->first + (i - begin));
  });
  return positions;
}

std::vector<std::int64_t> candidate_blocks(std::span<const float> scores,
                                           std::int64_t visible,
                                           std::int64_t keep,
                                           std::int64_t block) {
  if (visible <= 0) {
    return {};
  }
  std::vector<float> best(static_cast<std::size_t>((visible + block - 1) / block), kNever);
  for (std::int64_t i = 0; i < visible; ++i) {
    float& b = best[static_cast<std::size_t>(i / block)];
    b = std::max(b, scores[static_cast<std::size_t>(i)]);
  }
  best.back() = std::numeric_limits<float>::infinity();
  return select_top(best, keep);
}

std::vector<EntryRange> candidate_ranges(std::span<const std::int64_t> blocks,
                                         std::int64_t visible,
                                         std::int64_t block) {
  std::vector<EntryRange> ranges;
  for (const std::int64_t b : blocks) {
    const std::int64_t first = b * block;
    const std::int64_t count = std::min(block, visible - first);
    if (!ranges.empty() && ranges.back().first + ranges.back().count == first) {
      ranges.back().count += count;
    } else {
      ranges.push_back({first, count});
    }
  }
  return ranges;
}

}  // namespace shoal::kernels
