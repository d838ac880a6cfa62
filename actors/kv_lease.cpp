// Takes and returns the KV memory of one sequence.
#include "actors/kv_lease.h"

#include <utility>

#include "schemas/check.h"
#include "schemas/units.h"

namespace shoal {

KvLeasePtr KvLease::take(kernels::KvArena& arena,
                         std::int64_t blocks,
                         std::function<void()> on_release) {
  const auto sequence = arena.take_sequence();
  if (!sequence) {
    return nullptr;
  }
  auto taken = arena.take_blocks(blocks);
  if (!taken) {
    arena.give_sequence(*sequence);
    return nullptr;
  }
  return std::make_shared<const KvLease>(
      arena, *std::move(taken), *sequence, std::move(on_release));
}

KvLease::KvLease(kernels::KvArena& arena,
                 std::vector<BlockId> blocks,
                 SequenceId sequence,
                 std::function<void()> on_release)
    : arena_(arena),
      blocks_(std::move(blocks)),
      sequence_(sequence),
      on_release_(std::move(on_release)) {}

KvLease::~KvLease() {
  arena_.give_blocks(blocks_);
  arena_.give_sequence(sequence_);
  on_release_();
}

std::vector<BlockId> KvLease::table(Position tokens) const {
  const auto count = static_cast<std::ptrdiff_t>((tokens + kBlockTokens - 1) / kBlockTokens);
  CHECK(count <= static_cast<std::ptrdiff_t>(blocks_.size()));
  return {blocks_.begin(), blocks_.begin() + count};
}

}  // namespace shoal
