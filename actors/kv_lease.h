// The KV memory of one sequence on one device: its blocks and its slot. Moves from prefill to
// decode as a pointer and goes back to the arena when the last holder lets go: an actor's state, a
// message, or a step in flight. So it cannot leak with a dying actor, and is never reused under a
// running step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/kv_arena.h"
#include "schemas/ids.h"

namespace shoal {

class KvLease {
 public:
  // Null: the arena has not enough. `on_release` is called after the memory went back, on whichever
  // thread let go last.
  static std::shared_ptr<const KvLease> take(kernels::KvArena& arena,
                                             std::int64_t blocks,
                                             std::function<void()> on_release);

  KvLease(kernels::KvArena& arena,
          std::vector<BlockId> blocks,
          SequenceId sequence,
          std::function<void()> on_release);
  ~KvLease();
  KvLease(const KvLease&) = delete;
  KvLease& operator=(const KvLease&) = delete;

  SequenceId sequence() const { return sequence_; }

  const std::vector<BlockId>& blocks() const { return blocks_; }

  // The table that covers the first `tokens` positions.
  std::vector<BlockId> table(Position tokens) const;

 private:
  kernels::KvArena& arena_;
  std::vector<BlockId> blocks_;
  SequenceId sequence_;
  std::function<void()> on_release_;
};

using KvLeasePtr = std::shared_ptr<const KvLease>;

}  // namespace shoal
