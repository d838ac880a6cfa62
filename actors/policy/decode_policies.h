// Ways to place answers on decode ranks, ours first, beside what others do: simulation and
// benchmarks compare them, the conformance test holds all of them to the same rules.
#pragma once

#include <memory>
#include <string_view>

#include "actors/policy/decode_balancer.h"

namespace shoal {

enum class DecodeRefusal : std::uint8_t {
  kNone,
  kNoRankUp,  // there is none, or all are down
  kTooLarge,  // larger than the whole memory of every rank that may take it
  kNoRoom,    // it waits: for memory, a place in a batch
};

struct DecodePlacement {
  std::optional<DecodeChoice> choice;
  DecodeRefusal refusal = DecodeRefusal::kNone;
};

class DecodePolicy {
 public:
  virtual ~DecodePolicy() = default;

  // Of `ranks` as they are now; at most `max_batch` answers on one.
  virtual DecodePlacement place(std::span<const DecodeRank> ranks,
                                const DecodeNeed& need,
                                std::int64_t max_batch) = 0;

  // What steps cost, as far as is known now.
  void learn(const CostModel& cost) { cost_ = cost; }

 protected:
  explicit DecodePolicy(const CostModel& cost) : cost_(cost) {}

  CostModel cost_;
};

struct DecodeRow {
  std::string_view name;
  std::string_view what;
  bool moves;  // running answers are moved, too (policy/decode_moves.h)
  // Equal seeds give equal decisions.
  std::unique_ptr<DecodePolicy> (*make)(const CostModel& cost, std::uint64_t seed);
};

std::span<const DecodeRow> decode_policies();

}  // namespace shoal
