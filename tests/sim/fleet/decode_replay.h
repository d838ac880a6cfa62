// A decode group under recorded lengths: R ranks step together, each step takes as long as that of
// the slowest rank; answers come as a Poisson process and are placed by a policy, in order of
// arrival, when the next step begins. It starts in balance: with as many answers, as far on, as
// ranks hold at that rate when no rank is ever slower than another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/policy/decode_moves.h"
#include "actors/policy/decode_policies.h"
#include "tests/sim/fleet/samples.h"
#include "tests/sim/trace_file.h"

namespace shoal::sim {

struct DecodeLength {
  std::int64_t input = 0;
  std::int64_t output = 0;
};

struct DecodeFleet {
  std::int64_t ranks = 64;
  std::int64_t per_rank = 93;  // answers, in balance
  // 6 ms a step, 0.12 ms an answer, 0.1 ns a token of KV.
  CostCoefficients cost{.step = Nanos{6'000'000}, .row_ps = 120'000'000, .pair_fs = 100'000};
  CostCoefficients believed = cost;  // by the policy
  Nanos warm_up = std::chrono::seconds(20);
  Nanos measured = std::chrono::seconds(60);
  int moves_a_step = 0;
  // 890 bytes a token over 50 GB/s. Whoever moves gets no token in the steps that the copy takes,
  // at least one, and is a load where it goes.
  DecodeMoveCost move{.token_ps = 17'800};
  std::uint64_t seed = 1;
};

struct DecodeReplay {
  // Largest over mean of all ranks, averaged over the measured time.
  double requests = 0;
  double kv = 0;
  double time = 0;  // of the part of a step that ranks differ in
  Samples step_ms;
  double live = 0;  // answers a rank
  std::int64_t moves = 0;
  std::int64_t placed = 0;
};

// The lengths are shuffled by the seed, and again from the first when there are no more.
// `contexts`: each input is one of these instead, drawn; none: as recorded.
std::vector<DecodeLength> decode_lengths(std::span<const TraceRequest> requests,
                                         std::span<const std::int64_t> contexts,
                                         std::uint64_t seed);

DecodeReplay replay_decode(std::span<const DecodeLength> lengths,
                           const DecodeFleet& fleet,
                           const DecodeRow& row);

}  // namespace shoal::sim
