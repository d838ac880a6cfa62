// What the expert shards of a process tell on the page of metrics.
#pragma once

#include <string>

#include "actors/expert_host.h"
#include "actors/expert_shards.h"
#include "actors/expert_source.h"

namespace shoal {

// Prometheus text. A line a shard and a line a layer: those of single experts would be too many.
std::string expert_text(const ExpertShards& shards);
// Of a device whose shards are elsewhere.
std::string expert_text(const ExpertSource& source);
// Of shards for a cluster.
std::string expert_text(const ExpertHost& host);
std::string expert_text(const transport::ExpertExchange::Use& use);

}  // namespace shoal
