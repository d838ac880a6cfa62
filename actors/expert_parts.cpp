// Shards are of one kind in a process.
#include "actors/expert_parts.h"

#include "actors/expert_host.h"
#include "actors/expert_shards.h"

namespace shoal {

std::uint32_t ExpertParts::count() const {
  return shards != nullptr ? shards->count() : host != nullptr ? host->count() : 0;
}

}  // namespace shoal
