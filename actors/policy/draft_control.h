// Decides for each step of a decode group whether drafts are made behind it, whether those made
// behind the step before are verified, and how many tokens of each rank. Drafts are made while the
// tokens a nanosecond with them, the draft pass paid, are more than without: what drafts yield is
// what was accepted, and what both kinds of steps cost is learned from both. So among many steps
// with drafts there is one without now and then, and the other way round a few with, as many as
// cost less than a hundredth. A lead of less than a hundredth changes nothing.
//
// Drafts see a window of rows. While none are made none are shown; before those few are, rows are
// shown until the window is full again.
//
// What is verified never depends on what was drawn: sizes come from confidences of the drafts
// before those that they are for.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "actors/policy/draft_costs.h"
#include "actors/policy/draft_outcomes.h"
#include "actors/policy/draft_step.h"
#include "actors/policy/verify_plan.h"
#include "schemas/ids.h"

namespace shoal {

// The row without drafts; all others are those of verify_policies().
inline constexpr std::string_view kNoDrafts = "none";

enum class DraftReason : std::uint8_t {
  kNever,       // the row
  kAlways,      // the row
  kNoRequests,  // nothing to draft for
  kFirst,       // steps without, to know what they cost
  kTrial,       // the first with drafts, to know what they cost and yield
  kPays,        // more tokens a nanosecond than without
  kDoesNotPay,  // less
  kRefill,      // before a probe, until drafts see a window of rows
  kProbe,       // a few with drafts while they do not pay, to see whether they would
  kWithout,     // one without while they pay, to see what they save
};

struct DraftPlan {
  bool feeds = false;         // drafts made from here on see the rows of the step
  bool makes_drafts = false;  // behind the step
  bool verifies = false;      // drafts made behind the step before
  VerifyPlan sizes{};         // without drafts where nothing is verified
  DraftReason reason = DraftReason::kNever;
};

struct DraftControlOptions {
  Position window = 0;  // rows that drafts see
  DraftCostTerms prior{.step = 1e6, .row = 1e5, .feed = 5e3, .pass = 1e5, .sequence = 1e4};
};

// Of both gains: tokens a nanosecond over those without drafts, at the sizes of the planner.
struct DraftFigures {
  std::int64_t steps = 0;                            // that were added
  std::int64_t drafted = 0;                          // of them with drafts behind
  std::array<std::int64_t, kMostDrafts> verified{};  // by place
  std::array<std::int64_t, kMostDrafts> accepted{};
  double error_as_said = 0;   // calibration of the head
  double error_tempered = 0;  // by the temperatures in force
  double expected_gain = 1;   // by confidences
  double true_gain = 1;       // by what was accepted and verified
  DraftCostTerms costs{};
};

// A mean that forgets: what is new weighs by its requests, and all before it `most` of them.
class RecentMean {
 public:
  explicit RecentMean(double most) : most_(most) {}

  void add(double value, double weight);

  double value() const { return value_; }

  double weight() const { return weight_; }

  // What was added counts no more than this; 0: the next value is all that counts.
  void recall(double weight) { weight_ = std::min(weight_, weight); }

 private:
  double most_;
  double value_ = 0;
  double weight_ = 0;
};

class DraftControl {
 public:
  // `row` is null for none.
  explicit DraftControl(const VerifyRow* row, const DraftControlOptions& options = {});

  // Of the next step to launch, when ranks have so many requests. One or more planned before it may
  // still run, then its sizes come from the last that was added.
  DraftPlan plan(std::span<const std::int64_t> requests_of_rank);

  // A step is over; in the order of their plans.
  void add(std::span<const RankDrafts> ranks);

  // A planned step will never be added.
  void drop();

  // For the confidences of histograms and fills.
  const Temperatures& temperatures() const { return outcomes_.temperatures(); }

  DraftFigures figures() const;

 private:
  enum class Phase : std::uint8_t { kFirst, kTrial, kOn, kOff, kRefill, kProbe };

  bool is_drafting() const {
    return phase_ == Phase::kTrial || phase_ == Phase::kOn || phase_ == Phase::kProbe;
  }

  VerifyPlan sizes(std::span<const std::int64_t> requests_of_rank);
  void judge(std::span<const std::int64_t> requests_of_rank, const VerifyPlan& sizes);
  void note_planned(const VerifyPlan& sizes, std::int64_t requests);
  void note_yield(std::span<const RankDrafts> ranks);
  void follow_load(std::int64_t requests);
  DraftReason decide(std::int64_t requests);
  DraftReason decide_first(std::int64_t requests);
  DraftReason decide_on();
  DraftReason decide_off();
  DraftReason refill();
  DraftReason conclude();
  void begin(Phase phase, std::int64_t steps);
  bool is_hopeless() const;
  double price_of_probe() const;
  std::int64_t until_probe() const;

  bool always_ = false;
  std::unique_ptr<VerifyPlanner> planner_;
  const Position window_;
  DraftCosts costs_;
  DraftOutcomes outcomes_;

  std::vector<DraftHistogram> newest_;  // of each rank
  std::vector<DraftHistogram> older_;   // the same before the last step was added
  bool is_new_ = false;                 // since the last judgement
  std::int64_t in_flight_ = 0;          // planned, not added
  bool drafts_exist_ = false;           // the last plan made some

  Phase phase_ = Phase::kFirst;
  std::int64_t in_phase_ = 0;  // steps
  std::int64_t left_ = 0;      // steps of the phase, where it ends by itself; or until a look aside
  std::int64_t losses_ = 0;    // probes in a row that did not pay
  double feeding_ = 0;         // what it adds to steps without drafts, in parts of them
  double credit_ = 0;          // what probes may cost, in steps without drafts; below 0: cost more
  double load_ = 0;            // requests, a recent mean
  double judged_load_ = 0;     // at which the gain was begun to be judged

  RecentMean expected_gain_;
  RecentMean gain_;
  RecentMean planned_yield_;  // drafts accepted, a request
  RecentMean yield_;
  RecentMean planned_rows_;  // drafts verified, a request
  RecentMean rows_;

  std::int64_t steps_ = 0;
  std::int64_t drafted_ = 0;
};

}  // namespace shoal
