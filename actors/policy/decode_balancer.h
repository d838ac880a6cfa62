// Which decode rank an answer joins: among the ranks that can take it, the one whose step would be
// shortest with it (predicted ns), so that counts and KV lengths are balanced in one unit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "actors/policy/cost_model.h"
#include "actors/policy/kv_budget.h"
#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

struct DecodeRank {
  bool alive = false;
  std::uint32_t device = 0;    // whose KV arena the rank reads
  std::int64_t live = 0;       // answers placed there
  std::int64_t kv_tokens = 0;  // tokens they hold together
  KvRoom room;                 // not reserved by anybody
  std::int64_t blocks = 0;     // its whole memory
  bool avoided = false;        // its node failed a moment ago
};

struct DecodeNeed {
  std::optional<std::uint32_t> device;  // where the KV stays; none: it can be brought anywhere
  std::int64_t blocks = 0;              // still to be reserved; 0 when the reservation moves along
  Position tokens = 0;                  // KV length at the hand-over
  std::uint64_t tie = 0;                // the request: which of equal ranks it gets
};

struct DecodeChoice {
  std::size_t rank = 0;
  Nanos step{0};  // predicted step time with the answer
};

// No rank that is up could ever take it, and some have said how much they hold.
bool fits_nowhere(std::span<const DecodeRank> ranks, const DecodeNeed& need);

// Nothing: no rank fits now. One that is avoided is taken only where no other could hold it. Ties
// go to fewer answers, then by rendezvous: no rank is a favourite.
std::optional<DecodeChoice> pick_decode_rank(std::span<const DecodeRank> ranks,
                                             const DecodeNeed& need,
                                             const CostModel& cost,
                                             std::int64_t max_batch);

}  // namespace shoal
