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

// What is bound to a rank and not computed yet.
struct PrefillRankLoad {
  std::int64_t requests = 0;
  std::int64_t rows = 0;
  Nanos work{0};
};

struct PrefillInstance {
  bool alive = false;
  std::array<Nanos, kPrefillClasses> queued{};  // predicted work that no rank has begun
  std::span<const PrefillRankLoad> ranks{};     // what they have begun; none: one idle rank
  std::int64_t requests = 0;                    // queued and begun
  Nanos step_left{0};                           // until its running step is over
  std::int64_t waiting = 0;     // requests of this class there that are not admitted yet
  bool holds = true;            // its KV memory is large enough for the request
  bool avoided = false;         // it failed a moment ago
  std::optional<Nanos> work{};  // of the request there; none: as PrefillNeed says
  std::int64_t late_ppm = 0;    // how much longer than predicted nearly all its steps take at most
  std::int64_t steps = 0;       // that its predictions were learned from
};

struct PrefillNeed {
  Nanos work{0};
  int length_class = 0;
  std::int64_t rows = 0;
  Nanos quota{0};  // the longest chunk of a step
  std::int64_t waiting_limit = 0;
  std::uint64_t tie = 0;  // the request: which of equal instances it gets
};

struct PrefillChoice {
  std::size_t instance = 0;
  std::size_t rank = 0;  // where requests are bound to ranks from the beginning
  Nanos finish{0};       // from now: the predicted first token
};

// What a request takes on an instance that says `own` after so many steps, where that is not what
// `all` say: after enough steps, and by more than a quarter. Smaller differences are noise, by
// which one of equal instances would get all that comes while nobody waits.
std::optional<Nanos> price_apart(Nanos own, Nanos all, std::int64_t steps);

// When the request's first token would be out, from now: what is ahead of it fills the ranks from
// the one with least work up to a level, where it begins. Classes get equal shares while they have
// work (deficit round robin), so of other classes no more is ahead than of its own with it. Its
// last step is as long as the longest chunk in that, `quota` at most.
Nanos predict_first_token(const PrefillInstance& instance, const PrefillNeed& need);

// The same for the instance that is best off, behind `ahead` more of the request's class, at worst:
// all takes as much longer than predicted as nearly all steps do at most. Nothing: no instance can
// hold the request, or one that can has run too few steps to tell.
std::optional<Nanos> latest_first_token(std::span<const PrefillInstance> instances,
                                        const PrefillNeed& need,
                                        Nanos ahead);

// No instance that is up has KV memory for the request.
bool fits_nowhere(std::span<const PrefillInstance> instances);

// Whether the request may go there now. One that is avoided is taken only where there is no other:
// `has_other`.
bool has_unavoided(std::span<const PrefillInstance> instances);
bool may_take(const PrefillInstance& instance, const PrefillNeed& need, bool has_other);

}  // namespace shoal
