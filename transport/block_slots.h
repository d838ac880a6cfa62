// Which entries of an index have keys that begin with a tag: open addressing with linear probing.
// Slots lie in the order of their tags' homes, so that growing is one pass from front to back, and
// by an eighth at a time, so that little is empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal::transport {

class BlockSlots {
 public:
  BlockSlots();

  // for (auto s = home(tag); is_used(s); s = next(s)): every entry of the tag is among these.
  std::size_t home(std::uint32_t tag) const {
    return static_cast<std::size_t>((std::uint64_t{tag} * slots_.size()) >> 32);
  }

  std::size_t next(std::size_t slot) const { return slot + 1 == slots_.size() ? 0 : slot + 1; }

  bool is_used(std::size_t slot) const { return slots_[slot].entry != kFree; }

  std::uint32_t tag(std::size_t slot) const { return slots_[slot].tag; }

  std::uint32_t entry(std::size_t slot) const { return slots_[slot].entry; }

  void insert(std::uint32_t tag, std::uint32_t entry);
  // Both must be there.
  void erase(std::uint32_t tag, std::uint32_t entry);

  std::size_t bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  static constexpr std::uint32_t kFree = 0xFFFFFFFF;

  struct Slot {
    std::uint32_t tag = 0;
    std::uint32_t entry = kFree;
  };

  void put(Slot slot);
  void grow();

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace shoal::transport
