// Which running answer changes its decode rank: one of the rank with the longest step goes to the
// rank with the shortest when the longer of the two steps, over the steps that the answer still
// takes, gets shorter by more than the time it stands still while its KV is copied.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "actors/policy/decode_balancer.h"

namespace shoal {

struct DecodeAnswer {
  std::size_t rank = 0;
  std::int64_t tokens = 0;  // of KV
  std::int64_t steps = 0;   // expected until it ends
  std::int64_t blocks = 0;  // reserved for its worst case
};

struct DecodeMoveCost {
  Nanos fixed{200'000};       // both ends agree; the window rings
  std::int64_t token_ps = 0;  // one token's KV from device to device
  // Balance does not last: after so many steps others have come and gone.
  std::int64_t steps_most = 64;
};

struct DecodeMove {
  std::size_t answer = 0;  // which of `answers`
  std::size_t to = 0;
  Nanos gain{0};  // of a step
  Nanos cost{0};
};

// Answers that are already on the move are left out of `answers` and belong to where they go in
// `ranks`. Nothing: no move pays, or nothing fits.
std::optional<DecodeMove> pick_move(std::span<const DecodeRank> ranks,
                                    std::span<const DecodeAnswer> answers,
                                    const CostModel& cost,
                                    std::int64_t max_batch,
                                    const DecodeMoveCost& move);

}  // namespace shoal
