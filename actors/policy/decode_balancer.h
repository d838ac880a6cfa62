// Which decode rank an answer joins: among the ranks that can take it, the one whose step would be
// shortest with it (predicted ns), so that counts and KV lengths are balanced in one unit. Memory
// is promised for the worst case before an answer joins, so none is ever put back for want of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

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
  KvRoom room{};               // not reserved by anybody
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

// No machine holds more; products with the largest coefficients of a cost model stay inside 63
// bits.
inline constexpr std::int64_t kMostRankAnswers = 1'000'000;
inline constexpr std::int64_t kMostRankTokens = 1'000'000'000'000;

// The predicted step time of a rank, as it is or with the answer. Total: what is
// below 0 or above those limits counts as they.
Nanos step_of(const DecodeRank& rank, const CostModel& cost);
Nanos step_with(const DecodeRank& rank, const DecodeNeed& need, const CostModel& cost);

// The ranks that can take an answer now: up, the right device, memory and a place in the batch. One
// that is avoided counts only where no other could ever hold the answer.
class DecodeOpenings {
 public:
  DecodeOpenings(std::span<const DecodeRank> ranks, const DecodeNeed& need, std::int64_t max_batch);

  bool contains(std::size_t rank) const;

 private:
  std::span<const DecodeRank> ranks_;
  const DecodeNeed& need_;
  std::int64_t max_batch_;
  bool has_other_;  // than avoided ones
};

// The less, the better; the second number decides where the first is equal.
using DecodeScore = std::pair<std::int64_t, std::int64_t> (*)(const DecodeRank& rank,
                                                              const DecodeNeed& need,
                                                              const CostModel& cost);

// The predicted step, then the answers.
std::pair<std::int64_t, std::int64_t> by_step(const DecodeRank& rank,
                                              const DecodeNeed& need,
                                              const CostModel& cost);

// Nothing: no rank fits now. Equal scores go by rendezvous: no rank is a favourite.
std::optional<DecodeChoice> pick_least(std::span<const DecodeRank> ranks,
                                       const DecodeNeed& need,
                                       const CostModel& cost,
                                       std::int64_t max_batch,
                                       DecodeScore score);

}  // namespace shoal
