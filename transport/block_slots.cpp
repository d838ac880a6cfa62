// Probing, growth, and removal that leaves no gap inside a run.
#include "transport/block_slots.h"

#include <utility>

#include "schemas/check.h"

namespace shoal::transport {
namespace {

constexpr std::size_t kFirstSlots = 64;

// Four fifths full: a key that is not there is told by 13 slots on average, two cache lines.
constexpr bool is_full(std::size_t used, std::size_t slots) {
  return used * 5 > slots * 4;
}

}  // namespace

BlockSlots::BlockSlots() : slots_(kFirstSlots) {}

void BlockSlots::put(Slot slot) {
  std::size_t s = home(slot.tag);
  while (is_used(s)) {
    s = next(s);
  }
  slots_[s] = slot;
}

void BlockSlots::grow() {
  const std::vector<Slot> old =
      std::exchange(slots_, std::vector<Slot>(slots_.size() + slots_.size() / 8));
  for (const Slot& slot : old) {
    if (slot.entry != kFree) {
      put(slot);
    }
  }
}

void BlockSlots::insert(std::uint32_t tag, std::uint32_t entry) {
  if (is_full(++used_, slots_.size())) {
    grow();
  }
  put({tag, entry});
}

void BlockSlots::erase(std::uint32_t tag, std::uint32_t entry) {
  std::size_t hole = home(tag);
  while (slots_[hole].entry != entry) {
    CHECK(is_used(hole));
    hole = next(hole);
  }
  --used_;
  // Whoever could not have its home because of the hole moves into it.
  for (std::size_t s = next(hole); is_used(s); s = next(s)) {
    const std::size_t from_home = (s + slots_.size() - home(slots_[s].tag)) % slots_.size();
    const std::size_t from_hole = (s + slots_.size() - hole) % slots_.size();
    if (from_home >= from_hole) {
      slots_[hole] = slots_[s];
      hole = s;
    }
  }
  slots_[hole] = {};
}

}  // namespace shoal::transport
