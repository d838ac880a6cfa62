// Length classes and the choice of a prefill instance: a request belongs to the class of its
// predicted work, and goes to the instance that would finish it first. Work, not length: 1,000
// tokens behind a prefix of 100,000 cost more than alone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "schemas/units.h"

namespace shoal {

inline constexpr int kPrefillClasses = 4;
// Upper bounds of the classes 0, 1, 2; the last class is the rest.
using PrefillBounds = std::array<Nanos, kPrefillClasses - 1>;

int prefill_class(Nanos work, const PrefillBounds& bounds);

struct PrefillInstance {
  bool alive = false;
  Nanos backlog{0};          // predicted work admitted or queued there, all classes, per rank
  std::int64_t waiting = 0;  // requests of this class there that are not admitted yet
  bool holds = true;         // its KV memory is large enough for the request
  bool avoided = false;      // it failed a moment ago
};

struct PrefillChoice {
  std::size_t instance = 0;
  Nanos finish{0};  // from now: its backlog plus this work
};

// No instance that is up has KV memory for the request.
bool fits_nowhere(std::span<const PrefillInstance> instances);

// Nothing: every instance that can hold it is gone or has `waiting_limit` requests of the class
// ahead of admission. One that is avoided is taken only where there is no other.
// Ties go by rendezvous of the request `tie`: no instance is a favourite.
std::optional<PrefillChoice> pick_prefill_instance(std::span<const PrefillInstance> instances,
                                                   Nanos work,
                                                   std::int64_t waiting_limit,
                                                   std::uint64_t tie = 0);

}  // namespace shoal
