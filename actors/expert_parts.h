// What of the experts a node has outside its actors.
#pragma once

#include <cstdint>

namespace shoal {

class ExpertHost;
class ExpertShards;
class ExpertSource;

// All of it outlives the node's actors.
struct ExpertParts {
  ExpertShards* shards = nullptr;  // of this process, for its own device alone
  ExpertHost* host = nullptr;      // of shards for all devices of the cluster
  ExpertSource* source = nullptr;  // of the device's way to such shards

  // Shards of this process.
  std::uint32_t count() const;
};

}  // namespace shoal
