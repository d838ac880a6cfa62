// The longest run of leading keys that are visible.
#include "transport/block_store.h"

namespace shoal::transport {

std::size_t longest_hit(const BlockStore& store, std::span<const BlockKey> keys, bool exact_only) {
  return longest_hit(keys.size(), [&](std::size_t i) {
    const auto found = store.find(keys[i]);
    return found && (!exact_only || found->provenance == Provenance::kExact);
  });
}

}  // namespace shoal::transport
