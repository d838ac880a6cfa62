// What the expert shards of a process tell on the page of metrics.
#pragma once

#include <string>

#include "actors/expert_shards.h"
#include "actors/expert_source.h"

namespace shoal {

// Prometheus text. A line a shard and a line a layer: those of single experts would be too many.
std::string expert_text(const ExpertShards& shards);
// Of a device whose shards are elsewhere.
std::string expert_text(const ExpertSource& source);

}  // namespace shoal
