// A ring of the latest outcomes. A large step fills it with a part of its own, spread over all.
#include "actors/policy/draft_outcomes.h"

#include <algorithm>

namespace shoal {
namespace {

constexpr std::int64_t kOfAStep = 64;  // outcomes that are remembered, at most about
constexpr std::int64_t kBetweenFits = 512;
// A fit takes about a microsecond an outcome; it may take a part of 200 of the time.
constexpr Nanos kTimeOfAnOutcome{200'000};

int drafts_in(int count) {
  return std::clamp(count, 0, kMostDrafts);
}

VerifyOutcome checked(VerifyOutcome outcome) {
  for (float& confidence : outcome.confidence) {
    confidence = confidence > 0 ? std::min(confidence, 1.0F) : 0.0F;
  }
  outcome.verified = drafts_in(outcome.verified);
  outcome.accepted = std::clamp(outcome.accepted, 0, outcome.verified);
  return outcome;
}

}  // namespace

void DraftOutcomes::add(std::span<const RankDrafts> ranks) {
  std::int64_t outcomes = 0;
  Nanos longest{0};
  for (const RankDrafts& rank : ranks) {
    longest = std::max(longest, rank.compute);
    outcomes += std::ssize(rank.outcomes);
    for (const VerifyOutcome& outcome : rank.outcomes) {
      const int verified = drafts_in(outcome.verified);
      ++verified_[static_cast<std::size_t>(verified)];
      ++accepted_[static_cast<std::size_t>(std::clamp(outcome.accepted, 0, verified))];
    }
  }
  ++steps_;
  time_since_fit_ += longest;
  remember(ranks, outcomes);
  if (may_fit()) {
    fit();
  }
}

void DraftOutcomes::remember(std::span<const RankDrafts> ranks, std::int64_t outcomes) {
  const std::int64_t stride = (outcomes + kOfAStep - 1) / kOfAStep;
  std::int64_t skip = stride > 0 ? steps_ % stride : 0;
  for (const RankDrafts& rank : ranks) {
    for (const VerifyOutcome& outcome : rank.outcomes) {
      if (skip-- > 0) {
        continue;
      }
      skip = stride - 1;
      if (outcome.verified <= 0) {
        continue;
      }
      ++since_fit_;
      if (ring_.size() < kRemembered) {
        ring_.push_back(checked(outcome));
      } else {
        ring_[next_++ % kRemembered] = checked(outcome);
      }
    }
  }
}

bool DraftOutcomes::may_fit() const {
  return since_fit_ >= kBetweenFits && time_since_fit_ >= kTimeOfAnOutcome * std::ssize(ring_);
}

void DraftOutcomes::fit() {
  temperatures_ = fit_temperatures(ring_);
  error_as_said_ = calibration_error(ring_, kUntempered);
  error_tempered_ = calibration_error(ring_, temperatures_);
  since_fit_ = 0;
  time_since_fit_ = Nanos{0};
  ++fits_;
}

// Counts of exactly so many drafts become those of at least so many.
std::array<std::int64_t, kMostDrafts> DraftOutcomes::at_least(const ByCount& counts) {
  std::array<std::int64_t, kMostDrafts> result{};
  std::int64_t sum = 0;
  for (std::size_t place = kMostDrafts; place-- > 0;) {
    sum += counts[place + 1];
    result[place] = sum;
  }
  return result;
}

}  // namespace shoal
