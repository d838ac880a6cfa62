// What a planted defect changes of a world's ports: nothing, where a function is not set.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/config.h"
#include "schemas/ids.h"
#include "transport/block_store.h"

namespace shoal::sim {

// Which buffer is fetched instead of `key`.
using OtherBuffer = std::function<BufferKey(NodeId from, BufferKey key)>;

struct Tamper {
  // Of all nodes; what is checked stays what the scenario says.
  std::function<void(Config&)> configure;
  // The messages that go on the way instead of one, in order.
  std::function<std::vector<std::string>(NodeId from, NodeId to, std::string bytes)> messages;
  OtherBuffer fetched;
  // The KV stores' disks make nothing durable, and do not say so.
  bool skips_sync = false;
  // What the KV stores are opened with.
  std::function<void(transport::BlockStoreLimits&)> blocks;
  // Longest wait of a drain.
  std::optional<Nanos> drain;
  // Tokens that may wait for a client that does not read.
  std::optional<std::int64_t> unread;
};

}  // namespace shoal::sim
