// A tail that cannot be made is a later miss.
#include "actors/tail_copy.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kv_image.h"
#include "schemas/block_key.h"

namespace shoal {

static_assert(kTailRewind == kernels::kTailReach);

namespace {

std::uint64_t identity_of(const SessionTail& tail) {
  const Basis& basis = tail.basis;
  std::string text = to_string(tail.first) + " " + to_string(tail.last);
  for (const TokenId token : tail.open) {
    text += " " + std::to_string(token);
  }
  for (const std::int64_t number : {tail.end,
                                    tail.sampled,
                                    static_cast<std::int64_t>(basis.mode),
                                    basis.hit,
                                    basis.replay_floor,
                                    basis.tail_start,
                                    static_cast<std::int64_t>(basis.lineage),
                                    static_cast<std::int64_t>(tail.lineage)}) {
    text += "/" + std::to_string(number);
  }
  return text_digest(text);
}

kernels::BlockBytes pack_tail(std::uint64_t identity, const std::vector<std::byte>& image) {
  std::vector<std::byte> bytes(kTailHeader + image.size());
  std::memcpy(bytes.data(), &identity, kTailHeader);
  std::memcpy(bytes.data() + kTailHeader, image.data(), image.size());
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

}  // namespace

Result<void> check_tail(const TailPlace& place, const std::vector<std::byte>& bytes) {
  std::uint64_t identity = 0;
  if (bytes.size() < kTailHeader) {
    return fail(Code::kCorrupt, "a session's tail is shorter than its header");
  }
  std::memcpy(&identity, bytes.data(), kTailHeader);
  if (identity != place.identity) {
    return fail(Code::kCorrupt, "it is the tail of another session");
  }
  return {};
}

void keep_tail(const PartSeat& seat,
               std::uint32_t rank,
               const Handover& sequence,
               kernels::Queue queue) {
  const Placement& placement = *sequence.placement;
  if (placement.kv == nullptr || seat.node->options.tails.bytes.value == 0) {
    return;
  }
  kernels::KvExport copy{.queue = queue,
                         .sequence = sequence.kv->sequence(),
                         .blocks = sequence.kv->table(sequence.position),
                         .tokens = sequence.position,
                         .done = {},
                         .tail = true};
  SessionTail tail{sequence.chain.last,
                   sequence.chain.open,
                   sequence.position,
                   placement.span.total,
                   placement.basis,
                   sequence.chain.first.value_or(sequence.chain.last),
                   sequence.chain.lineage};
  tail.identity = identity_of(tail);
  copy.done = [client = seat.wiring->kv_client, lease = sequence.kv, tail = std::move(tail)](
                  const Result<std::vector<std::byte>>& image) {
    if (image) {
      notify(client, StoreTail{tail, pack_tail(tail.identity, *image)});
    }
  };
  seat.node->devices[rank].launcher->copy_out(std::move(copy));
}

}  // namespace shoal
