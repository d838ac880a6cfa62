// Costs are straight lines: what padding does is the benchmark's business.
#include "tests/sim/fleet/fleet_verify.h"

#include <algorithm>

#include "schemas/check.h"

namespace shoal::sim {
namespace {

constexpr std::int64_t kThousand = 1'000;

std::unique_ptr<VerifyPlanner> make_planner(std::string_view name) {
  const auto rows = verify_policies();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [name](const VerifyRow& r) { return r.name == name; });
  CHECK(row != rows.end());
  return row->make();
}

VerifyCosts costs_of(const fleet::Verify& options, const fleet::Decode& decode) {
  const auto row_ns = static_cast<double>(options.row_ns());
  const std::int64_t most = decode.max_batch() * (1 + kMostDrafts);
  return {.rank = step_line(row_ns * options.rank_share(), most, 1),
          .group = step_line(row_ns * (1 - options.rank_share()) * decode.moe_lb() / decode.ranks(),
                             most * decode.ranks(),
                             1)};
}

}  // namespace

FleetVerify::FleetVerify(const fleet::Verify& options,
                         const fleet::Decode& decode,
                         DraftSource source)
    : every_(options.every()),
      planner_(make_planner(options.policy())),
      source_(std::move(source)),
      costs_(costs_of(options, decode)),
      ranks_(static_cast<std::size_t>(decode.ranks())) {}

std::span<const VerifiedRank> FleetVerify::step(std::span<const std::int64_t> requests,
                                                Nanos fixed) {
  if (until_plan_ == 0) {
    plan(requests, fixed);
    until_plan_ = every_;
  }
  --until_plan_;
  return ranks_;
}

void FleetVerify::plan(std::span<const std::int64_t> requests, Nanos fixed) {
  costs_.fixed = fixed;
  std::vector<DraftHistogram> histograms(requests.size());
  for (std::size_t r = 0; r < requests.size(); ++r) {
    for (const DraftedRequest& drafted : source_.draw(static_cast<int>(requests[r])).requests) {
      histograms[r].add(drafted);
    }
  }
  const VerifyPlan sizes = planner_->plan(histograms, costs_);
  VerifiedRank mean{.rows = 0, .gain = 0};
  std::int64_t all = 0;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    ranks_[r] = fill(sizes, r, requests[r]);
    mean.rows += ranks_[r].rows * requests[r];
    mean.gain += ranks_[r].gain * requests[r];
    all += requests[r];
  }
  for (std::size_t r = 0; r < requests.size(); ++r) {
    if (requests[r] == 0 && all > 0) {  // the first that joins is like the others
      ranks_[r] = {mean.rows / all, mean.gain / all};
    }
  }
}

VerifiedRank FleetVerify::fill(const VerifyPlan& plan, std::size_t rank, std::int64_t requests) {
  if (requests == 0) {
    return {};
  }
  const DraftSource::Step drafted = source_.draw(static_cast<int>(requests));
  std::vector<std::uint8_t> lengths(drafted.requests.size());
  planner_->fill(plan, rank, drafted.requests, lengths);
  std::int64_t rows = requests;
  std::int64_t gain = requests;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    rows += lengths[i];
    gain += std::min(lengths[i], drafted.acceptable[i]);
  }
  return {rows * kThousand / requests, gain * kThousand / requests};
}

}  // namespace shoal::sim
