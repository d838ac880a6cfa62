// Tails that this node's workers made, in its memory for some minutes: under a byte ceiling, and on
// offer to other nodes where there are any.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "actors/buffer_offer.h"
#include "kernels/launch_queue.h"
#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

struct TailLimits {
  Bytes bytes{0};  // 0: none is kept
  Nanos life{0};
};

class TailKeeper {
 public:
  explicit TailKeeper(const TailLimits& limits) : limits_(limits) {}

  const TailLimits& limits() const { return limits_; }

  // False: it is not kept. The oldest go to make room. `key` is new; `transport` may be null.
  bool keep(BufferKey key, kernels::BlockBytes bytes, transport::Transport* transport, Instant now);

  // Null: it is not here, or no longer.
  kernels::BlockBytes find(BufferKey key) const;

  void expire(Instant now);

  Bytes bytes() const { return bytes_; }

  std::size_t size() const { return kept_.size(); }

 private:
  struct Kept {
    kernels::BlockBytes bytes;
    Instant until;
    std::unique_ptr<BufferOffer> offer;
  };

  void drop_oldest();

  TailLimits limits_;
  Bytes bytes_{0};
  std::map<BufferKey, Kept> kept_;  // keys count up, so the first one is the oldest
};

}  // namespace shoal
