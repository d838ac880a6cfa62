// How many drafts of each request a step verifies. A step lasts as long as its slowest rank, so one
// level is chosen for the whole group: ranks with fewer requests verify longer drafts in time that
// they would wait. What is verified must never depend on what was drawn, or the distribution of the
// output changes; so sizes come from confidences two steps old, and current ones only fill them,
// the likeliest drafts first: whether draft j is verified then depends on drafts before it alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "actors/policy/verify_histogram.h"
#include "schemas/units.h"

namespace shoal {

// Measured time of steps by tokens; a step is padded to the next size. Tables never fall: a
// measurement below an earlier one is raised to it.
class StepTable {
 public:
  StepTable() = default;
  // times[i] is of i * grain tokens; grain is a power of two, as division costs.
  StepTable(std::int64_t grain, std::vector<Nanos> times);

  // Behind the last measurement in proportion to it. 0 without any.
  Nanos at(std::int64_t tokens) const {
    const auto i = static_cast<std::size_t>(cells(tokens));
    return i < times_.size() ? times_[i] : beyond(tokens);
  }

  // The largest number of tokens that takes no longer than `tokens`; that itself without times.
  std::int64_t padded(std::int64_t tokens) const;

  bool is_flat() const { return times_.empty() || times_.front() == times_.back(); }

 private:
  std::int64_t cells(std::int64_t tokens) const {
    return (tokens + (std::int64_t{1} << shift_) - 1) >> shift_;
  }

  Nanos beyond(std::int64_t tokens) const;

  int shift_ = 0;
  std::vector<Nanos> times_;
};

// A step takes fixed + rank(tokens of the fullest rank) + group(tokens of all ranks).
struct VerifyCosts {
  Nanos fixed{0};
  StepTable rank{};
  StepTable group{};

  Nanos step(std::int64_t fullest, std::int64_t sum) const {
    return fixed + rank.at(fullest) + group.at(sum);
  }
};

enum class VerifyReason : std::uint8_t {
  kBest,        // the most tokens a second
  kStayed,      // another size would gain less than is worth a change
  kFlatCosts,   // nothing is known of what tokens cost: all drafts
  kNoRequests,  // nothing to verify
  kRule,        // the row does not look at sizes
};

struct VerifyPlan {
  std::vector<std::int64_t> tokens;  // a rank: one a request, and its drafts
  int most_drafts = kMostDrafts;     // of each request
  VerifyReason reason = VerifyReason::kRule;
  std::int64_t level = 0;                      // tokens of the fullest rank
  std::int64_t expected = 0;                   // tokens that the step yields, in 1 / kCertain
  Nanos time{0};                               // that it takes
  std::shared_ptr<const VerifyCosts> costs{};  // for rows that size from current confidences
};

class VerifyPlanner {
 public:
  virtual ~VerifyPlanner() = default;

  // Sizes of a step, from confidences of two steps before; one histogram a rank.
  virtual VerifyPlan plan(std::span<const DraftHistogram> ranks, const VerifyCosts& costs) = 0;

  // Drafts to verify of each request of a rank, from current confidences. Looks at nothing but
  // these arguments: any planner of the row may fill what another one planned.
  virtual void fill(const VerifyPlan& plan,
                    std::size_t rank,
                    std::span<const DraftedRequest> requests,
                    std::span<std::uint8_t> lengths) const = 0;
};

struct VerifyRow {
  std::string_view name;
  std::string_view what;
  std::unique_ptr<VerifyPlanner> (*make)();
  bool always = false;  // whether drafts pay or not
};

// The shipped one first.
std::span<const VerifyRow> verify_policies();

}  // namespace shoal
