// When a block is used again, learned from blocks that were: how likely at every age, by kind.
//
// Uses divided by time waited is the hazard: the chance of a use in the next second. A kind's
// hazard is that of all blocks at this age, times a ratio for each of its traits, times one for how
// long the wait is against the one before (machines and people keep their pace). What an age is
// worth is the best that keeping a block from there on can bring: uses per second kept, for the
// best moment to give up (the index of Gittins, 1979). Hazards that only fall make that "the
// youngest first", LRU; a pause that people make before they come back makes blocks gain with age
// until it is over.
//
// Every estimate leans on what is known without it, which weighs as much as some sequences seen.
// Where nothing is known, the hazard halves when the age doubles, which is LRU again, and of two
// kinds the one used more often is as likely ahead as the rule of succession says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schemas/block_use.h"

namespace shoal {

class ReuseModel {
 public:
  // Ages of half an octave: below 1 s, then up to 9 months.
  static constexpr int kAges = 50;
  using Counts = std::array<std::uint32_t, kAges>;

  // Kinds are told apart by these traits.
  enum Trait : std::uint8_t { kLifetime, kUses, kIdle, kTurn, kTraits };

  static constexpr std::array<std::size_t, kTraits> kLevels{3, 6, 8, 8};
  static constexpr std::size_t kKinds = 3 * 6 * 8 * 8;

  // The kind of a block from its last use on.
  static std::size_t kind(const BlockUse& use);
  static int age_of(WallMillis waited);

  ReuseModel();

  // A block of this kind was used again after this time, or was lost sight of.
  void used(std::size_t kind, WallMillis waited);
  void lost(std::size_t kind, WallMillis waited);

  // Learns. `waiting`: those in sight, by kind and age. `sequence`: how many blocks in sight are
  // used together, as a rule; they are one observation, not many.
  void learn(const std::vector<Counts>& waiting, double sequence);

  // Uses per second, in 2^-40. At most a quarter of a second's.
  std::int64_t worth(std::size_t kind, WallMillis waited) const;

 private:
  void forget_half();

  std::vector<Counts> uses_;
  std::vector<Counts> ends_;  // uses too
  std::uint64_t counted_ = 0;
  std::vector<std::array<std::int64_t, kAges>> worth_;
};

}  // namespace shoal
