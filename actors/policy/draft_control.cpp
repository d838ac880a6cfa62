// Phases: steps without drafts, a trial with them, then on or off by the gain, with looks at the
// other side.
#include "actors/policy/draft_control.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace shoal {
namespace {

constexpr std::int64_t kFirstSteps = 8;  // without drafts
// A trial sees so many requests' drafts, within bounds.
constexpr std::int64_t kTrialRequests = 256;
constexpr std::int64_t kTrialSteps = 16;
constexpr std::int64_t kMostTrialSteps = 128;
// Fewer than half of the steps by which the cost fit tells a change of speed.
constexpr std::int64_t kProbeSteps = 6;
// Probes are at least so far apart, and so far that they cost at most such a share of the time
// without drafts; repeated losses double that, up to kMostLosses times.
constexpr std::int64_t kBetweenProbes = 64;
constexpr double kProbeShare = 1.0 / 128;
constexpr std::int64_t kMostLosses = 2;
constexpr double kMostCredit = 4;  // that is saved up, in steps without drafts
// What was seen before a probe counts as so many requests beside those of the probe.
constexpr double kRecalled = 16;
constexpr double kRecalledYields = 64;
// One step in at least and at most so many is without drafts; it costs at most 1 / 200 of them.
constexpr std::int64_t kOftenWithout = 16;
constexpr std::int64_t kRarelyWithout = 256;
constexpr double kShareWithout = 1.0 / 200;

constexpr double kStarts = 1.01;  // gain at which drafts are begun to be made
constexpr double kStops = 0.995;  // and no longer
constexpr double kHopeless = 0.8;
constexpr double kOtherLoad = 1.25;       // times as many or as few requests
constexpr double kLoadSteps = 16;         // of which load is the mean
constexpr double kLittleSeen = 32;        // requests; on less a gain stops nothing
constexpr double kGainRequests = 256;     // of whose steps the gain is the mean, or 16 steps
constexpr double kYieldRequests = 1'024;  // likewise, or 32
constexpr double kLeastSteps = 16;
constexpr double kLeastYieldSteps = 32;
constexpr double kBelieved = 64;  // requests for which what was planned stands until more is seen

double capped(std::int64_t requests, double most, double steps) {
  return std::min(static_cast<double>(requests), most / steps);
}

// What came of what was planned, as a factor.
double kept_part(const RecentMean& planned, const RecentMean& came) {
  if (planned.value() <= 0) {
    return 1;
  }
  const double seen = (kBelieved * planned.value() + came.weight() * came.value()) /
                      ((kBelieved + came.weight()) * planned.value());
  return std::clamp(seen, 0.1, 3.0);
}

std::int64_t sum_of(std::span<const std::int64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

DraftHistogram all_of(std::span<const DraftHistogram> ranks) {
  DraftHistogram all;
  for (const DraftHistogram& rank : ranks) {
    all += rank;
  }
  return all;
}

// Drafts never see the step.
bool is_blind(DraftReason reason) {
  return reason == DraftReason::kNever || reason == DraftReason::kDoesNotPay ||
         reason == DraftReason::kNoRequests;
}

bool is_pause(DraftReason reason) {
  return is_blind(reason) || reason == DraftReason::kFirst || reason == DraftReason::kRefill ||
         reason == DraftReason::kWithout;
}

}  // namespace

void RecentMean::add(double value, double weight) {
  if (weight > 0) {
    weight_ = std::min(weight_ + weight, most_);
    value_ += (value - value_) * std::min(weight / weight_, 1.0);
  }
}

DraftControl::DraftControl(const VerifyRow* row, const DraftControlOptions& options)
    : always_(row != nullptr && row->always),
      planner_(row != nullptr ? row->make() : nullptr),
      window_(options.window),
      costs_(options.prior),
      expected_gain_(kGainRequests),
      gain_(kGainRequests),
      planned_yield_(kYieldRequests),
      yield_(kYieldRequests),
      planned_rows_(kYieldRequests),
      rows_(kYieldRequests) {
  begin(Phase::kFirst, kFirstSteps);
}

DraftPlan DraftControl::plan(std::span<const std::int64_t> requests_of_rank) {
  const std::int64_t requests = sum_of(requests_of_rank);
  DraftPlan next;
  next.verifies = drafts_exist_ && requests > 0;
  const bool looks = planner_ && requests > 0 && (next.verifies || (is_new_ && is_drafting()));
  if (looks) {
    next.sizes = sizes(requests_of_rank);
    judge(requests_of_rank, next.sizes);
  }
  next.reason = decide(requests);
  next.feeds = !is_blind(next.reason);
  next.makes_drafts = !is_pause(next.reason);
  if (next.verifies) {
    note_planned(next.sizes, requests);
  } else {
    next.sizes = {.tokens = {requests_of_rank.begin(), requests_of_rank.end()},
                  .most_drafts = 0,
                  .reason = requests > 0 ? VerifyReason::kRule : VerifyReason::kNoRequests};
  }
  drafts_exist_ = next.makes_drafts;
  ++in_flight_;
  return next;
}

VerifyPlan DraftControl::sizes(std::span<const std::int64_t> requests_of_rank) {
  // Of a step that is over, drafts are those of the next one: its own confidences must not size it.
  const std::vector<DraftHistogram>& known = in_flight_ > 0 ? newest_ : older_;
  const DraftHistogram all = all_of(known);
  std::vector<DraftHistogram> ranks;
  for (std::size_t r = 0; r < requests_of_rank.size(); ++r) {
    const bool is_known = r < known.size() && known[r].requests > 0;
    ranks.push_back(scaled(is_known ? known[r] : all, requests_of_rank[r]));
  }
  return planner_->plan(ranks, costs_.verify(requests_of_rank));
}

// What a step with drafts for all and of these sizes brings, against one without.
void DraftControl::judge(std::span<const std::int64_t> requests_of_rank, const VerifyPlan& sizes) {
  if (!std::exchange(is_new_, false)) {
    return;
  }
  const double kept_rows = kept_part(planned_rows_, rows_);
  std::vector<RankLoad> with;
  std::vector<RankLoad> shown;
  std::vector<RankLoad> without;
  double requests = 0;
  for (std::size_t r = 0; r < requests_of_rank.size(); ++r) {
    const auto own = static_cast<double>(requests_of_rank[r]);
    const double drafts = static_cast<double>(sizes.tokens[r]) - own;
    const double rows = own + kept_rows * drafts;
    with.push_back({.rows = rows, .fed = rows, .drafted = own});
    shown.push_back({.rows = own, .fed = own});
    without.push_back({.rows = own});
    requests += own;
  }
  feeding_ = costs_.step(shown) / costs_.step(without) - 1;
  const double saved = costs_.step(without) / costs_.step(with);
  const double drafts = static_cast<double>(sizes.expected) / kCertain / requests - 1;
  const double weight = capped(sum_of(requests_of_rank), kGainRequests, kLeastSteps);
  expected_gain_.add((1 + drafts) * saved, weight);
  gain_.add((1 + kept_part(planned_yield_, yield_) * drafts) * saved, weight);
}

void DraftControl::note_planned(const VerifyPlan& sizes, std::int64_t requests) {
  const auto all = static_cast<double>(requests);
  const double drafts = static_cast<double>(sum_of(sizes.tokens)) - all;
  if (drafts > 0) {
    const double weight = capped(requests, kYieldRequests, kLeastYieldSteps);
    planned_rows_.add(drafts / all, weight);
    planned_yield_.add(static_cast<double>(sizes.expected) / kCertain / all - 1, weight);
  }
}

void DraftControl::add(std::span<const RankDrafts> ranks) {
  in_flight_ = std::max<std::int64_t>(in_flight_ - 1, 0);
  ++steps_;
  costs_.add(ranks);
  outcomes_.add(ranks);
  note_yield(ranks);
  older_ = newest_;
  newest_.resize(std::max(newest_.size(), ranks.size()));
  bool makes_drafts = false;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].made.requests > 0) {
      newest_[r] = ranks[r].made;
      makes_drafts = true;
    }
  }
  drafted_ += makes_drafts ? 1 : 0;
  is_new_ = is_new_ || makes_drafts;
}

void DraftControl::note_yield(std::span<const RankDrafts> ranks) {
  std::int64_t requests = 0;
  std::int64_t verified = 0;
  std::int64_t accepted = 0;
  for (const RankDrafts& rank : ranks) {
    requests += rank.requests;
    verified += rank.rows - rank.requests;
    for (const VerifyOutcome& outcome : rank.outcomes) {
      accepted += outcome.accepted;
    }
  }
  if (verified > 0 && requests > 0) {
    const double weight = capped(requests, kYieldRequests, kLeastYieldSteps);
    rows_.add(static_cast<double>(verified) / static_cast<double>(requests), weight);
    yield_.add(static_cast<double>(accepted) / static_cast<double>(requests), weight);
  }
}

void DraftControl::drop() {
  in_flight_ = std::max<std::int64_t>(in_flight_ - 1, 0);
}

// Another load has another gain, and so it is looked at anew, from both sides.
void DraftControl::follow_load(std::int64_t requests) {
  const auto now = static_cast<double>(requests);
  load_ += load_ > 0 ? (now - load_) / kLoadSteps : now;
  if (load_ <= judged_load_ * kOtherLoad && load_ * kOtherLoad >= judged_load_) {
    return;
  }
  judged_load_ = load_;
  gain_.recall(0);
  expected_gain_.recall(0);
  losses_ = 0;
  if (phase_ == Phase::kOn || phase_ == Phase::kOff) {
    left_ = 0;
  }
}

DraftReason DraftControl::decide(std::int64_t requests) {
  if (!planner_ || requests == 0) {
    return planner_ ? DraftReason::kNoRequests : DraftReason::kNever;
  }
  if (always_) {
    return DraftReason::kAlways;
  }
  follow_load(requests);
  ++in_phase_;
  switch (phase_) {
    case Phase::kFirst:
      return decide_first(requests);
    case Phase::kTrial:
    case Phase::kProbe:
      if (--left_ <= 0 || is_hopeless()) {
        return conclude();
      }
      return phase_ == Phase::kTrial ? DraftReason::kTrial : DraftReason::kProbe;
    case Phase::kOn:
      return decide_on();
    case Phase::kOff:
      return decide_off();
    case Phase::kRefill:
      break;
  }
  return refill();
}

DraftReason DraftControl::decide_first(std::int64_t requests) {
  if (left_-- > 0) {
    return DraftReason::kFirst;
  }
  begin(Phase::kTrial, std::clamp(kTrialRequests / requests, kTrialSteps, kMostTrialSteps));
  return DraftReason::kTrial;
}

// The end of a trial or a probe.
DraftReason DraftControl::conclude() {
  if (gain_.value() >= kStarts) {
    losses_ = 0;
    begin(Phase::kOn, kOftenWithout);
    return DraftReason::kPays;
  }
  if (phase_ == Phase::kProbe) {
    credit_ -= price_of_probe();
    losses_ = std::min(losses_ + 1, kMostLosses);
  }
  begin(Phase::kOff, until_probe() << losses_);
  return DraftReason::kDoesNotPay;
}

DraftReason DraftControl::decide_on() {
  if (gain_.value() < kStops && gain_.weight() >= kLittleSeen) {
    begin(Phase::kOff, until_probe());
    return DraftReason::kDoesNotPay;
  }
  if (--left_ > 0) {
    return DraftReason::kPays;
  }
  const double lost = 1 - 1 / std::max(gain_.value(), 1.0);
  left_ =
      std::clamp(static_cast<std::int64_t>(lost / kShareWithout), kOftenWithout, kRarelyWithout);
  return DraftReason::kWithout;
}

DraftReason DraftControl::decide_off() {
  credit_ = std::min(credit_ + kProbeShare, kMostCredit);
  if (--left_ > 0 || credit_ < 0) {
    return DraftReason::kDoesNotPay;
  }
  begin(Phase::kRefill, window_ + 1);
  return refill();
}

DraftReason DraftControl::refill() {
  if (--left_ > 0) {
    return DraftReason::kRefill;
  }
  for (RecentMean* mean : {&expected_gain_, &gain_}) {
    mean->recall(kRecalled);
  }
  for (RecentMean* mean : {&planned_yield_, &yield_, &planned_rows_, &rows_}) {
    mean->recall(kRecalledYields);
  }
  begin(Phase::kProbe, kProbeSteps);
  return DraftReason::kProbe;
}

// A trial need not be long to see that, once it has seen what rows cost.
bool DraftControl::is_hopeless() const {
  return phase_ == Phase::kTrial && in_phase_ > kTrialSteps && gain_.value() < kHopeless;
}

// In steps without drafts: what its steps take longer than such ones for as many tokens, and those
// before it.
double DraftControl::price_of_probe() const {
  const double longer = std::max(1 / std::max(gain_.value(), 0.05) - 1, 0.0);
  return (1 + yield_.value()) * longer * static_cast<double>(kProbeSteps) +
         feeding_ * static_cast<double>(window_);
}

std::int64_t DraftControl::until_probe() const {
  return std::max(static_cast<std::int64_t>(price_of_probe() / kProbeShare), kBetweenProbes);
}

void DraftControl::begin(Phase phase, std::int64_t steps) {
  phase_ = phase;
  in_phase_ = 0;
  left_ = steps;
}

DraftFigures DraftControl::figures() const {
  return {.steps = steps_,
          .drafted = drafted_,
          .verified = outcomes_.verified(),
          .accepted = outcomes_.accepted(),
          .error_as_said = outcomes_.error_as_said(),
          .error_tempered = outcomes_.error_tempered(),
          .expected_gain = expected_gain_.weight() > 0 ? expected_gain_.value() : 1,
          .true_gain = gain_.weight() > 0 ? gain_.value() : 1,
          .costs = costs_.terms()};
}

}  // namespace shoal
