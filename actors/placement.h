// Turns a submission into a placement, or says what is wrong with it: the ledger's admission check,
// pure.
#pragma once

#include "actors/context.h"
#include "actors/interfaces.h"
#include "schemas/result.h"

namespace shoal {

struct PlacementLimits {
  Position context = 0;  // prompt plus answer
  std::int64_t vocab = 0;
  std::int64_t blocks = 0;  // of one device
  Reach reach{};
  TokenId eos = 1;
  std::uint32_t attempts = 0;
  PrefillBounds bounds{};
};

PlacementLimits placement_limits(const NodeContext& node);

Reach reach_of(const kernels::ModelShape& shape);

ReuseAsk reuse_ask(const Submission& submission);

// A later attempt keeps its basis, a bounded one as long as its hit is there.
Basis basis_behind(const ReuseAsk& ask,
                   const KvReuse& reuse,
                   std::uint64_t lineage,
                   const Reach& reach);

// What a request takes without a KV store.
KvFound find_nothing(const Submission& submission, const Reach& reach);

// Sizes and ids. An error is final for the attempt.
Result<void> check_submission(const Submission& submission, const PlacementLimits& limits);

// Of a submission that passed the check. `found`: what it takes from the KV store, or nothing.
Placement make_placement(SubmissionPtr submission,
                         const PlacementLimits& limits,
                         const CostModel& cost,
                         const KvFound& found);

// The same attempt behind what was found now.
void start_behind(Placement& placement, const KvFound& found, const CostModel& cost);

// A node that drains takes nothing new. What goes on may still come there, where no other node can
// take it: answers of its own clients, and those that were under way before.
bool goes_on_at(const Submission& submission, NodeId draining);

// What was asked, and what was decided about it, for the timeline.
TimelineFields timeline_fields(const Submission& submission, Instant now);
TimelineFields timeline_fields(const Placement& placement, KvReason why, Position stored);
// Of a submission that did not pass the check; none if its size is not why.
TimelineFields size_fields(const Submission& submission, const PlacementLimits& limits, Code code);

}  // namespace shoal
