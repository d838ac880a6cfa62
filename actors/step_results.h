// Turns what a device returned for one row into what a stream is sent: shared by the prefill and
// the decode worker.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "actors/interfaces.h"
#include "kernels/backend.h"

namespace shoal {

// How the next token of an answer that has `answered` tokens is chosen.
kernels::SampleSpec sample_spec(const Placement& placement,
                                std::int64_t answered,
                                const TokenTallyPtr& seen);

// How it goes on from there, on the device. The token of `position` is number `answered`.
std::shared_ptr<const kernels::SampleRules> sample_rules(PlacementPtr placement,
                                                         Position position,
                                                         std::int64_t answered);

// The first of `drawn` became token number `answered` of the answer, at `position` of the sequence.
// What is behind the answer's end is left out.
TokenRun token_run(const Placement& placement,
                   std::span<const kernels::DrawnToken> drawn,
                   Position position,
                   std::int64_t answered);

// Collects the runs of one step by gateway and shard: one message each.
class ShardBatches {
 public:
  void add(const Submission& submission, TokenRun run) {
    by_shard_[{submission.gateway, submission.shard}].push_back(std::move(run));
  }

  void send(const Wiring& wiring);

 private:
  std::map<std::pair<NodeId, std::uint32_t>, std::vector<TokenRun>> by_shard_;
};

}  // namespace shoal
