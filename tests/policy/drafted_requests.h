// Requests with drafts, and what planners say of them, for tests of those.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/policy/draw.h"
#include "actors/policy/verify_plan.h"

namespace shoal::testing {

using Requests = std::vector<DraftedRequest>;

inline DraftedRequest request(float confidence, Nanos slack = Nanos{0}) {
  DraftedRequest r{.slack = slack};
  r.confidence.fill(confidence);
  return r;
}

inline DraftHistogram histogram(const Requests& requests) {
  DraftHistogram h;
  for (const DraftedRequest& r : requests) {
    h.add(r);
  }
  return h;
}

inline Requests drawn(int count, Draw& random) {
  Requests requests;
  for (int i = 0; i < count; ++i) {
    DraftedRequest r{.drafts = static_cast<int>(random.below(kMostDrafts + 1))};
    for (float& confidence : r.confidence) {
      confidence = static_cast<float>(random.unit());
    }
    requests.push_back(r);
  }
  return requests;
}

// `fixed` and `token` ns.
inline VerifyCosts costs(std::int64_t fixed, std::int64_t token, std::int64_t grain = 1) {
  std::vector<Nanos> times;
  for (std::int64_t tokens = 0; tokens <= 4'096; tokens += grain) {
    times.emplace_back(tokens * token);
  }
  return {.fixed = Nanos{fixed}, .rank = StepTable(grain, times), .group = StepTable(1, {})};
}

inline std::vector<std::uint8_t> lengths(const VerifyPlanner& planner,
                                         const VerifyPlan& plan,
                                         const Requests& requests,
                                         std::size_t rank = 0) {
  std::vector<std::uint8_t> result(requests.size());
  planner.fill(plan, rank, requests, result);
  return result;
}

}  // namespace shoal::testing
