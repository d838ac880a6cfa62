// A tail that cannot be made is a later miss.
#include "actors/tail_copy.h"

#include <memory>
#include <utility>
#include <vector>

#include "kernels/kv_image.h"

namespace shoal {

static_assert(kTailRewind == kernels::kTailReach);

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
  copy.done = [client = seat.wiring->kv_client,
               lease = sequence.kv,
               tail = SessionTail{sequence.chain.last,
                                  sequence.chain.open,
                                  sequence.position,
                                  placement.span.total,
                                  placement.basis}](Result<std::vector<std::byte>> image) {
    if (image) {
      notify(client,
             StoreTail{tail, std::make_shared<const std::vector<std::byte>>(*std::move(image))});
    }
  };
  seat.node->devices[rank].launcher->copy_out(std::move(copy));
}

}  // namespace shoal
