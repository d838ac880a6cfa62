// From the copy to the offer, and to its end.
#include "actors/departures.h"

#include <utility>
#include <vector>

#include "actors/kv_image.h"

namespace shoal {

void Departures::copy_out(const PartSeat& seat,
                          kernels::Queue queue,
                          Handover handover,
                          Tell tell) {
  const Placement& placement = *handover.placement;
  leaving_.insert_or_assign(
      placement.key(), Leaving{placement.submission, placement.router, handover.buffer, nullptr});
  open_.set(leaving_.size());
  kernels::Launcher& launcher = *seat.node->devices[handover.rank].launcher;
  kernels::KvExport copy{.queue = queue,
                         .sequence = handover.kv->sequence(),
                         .blocks = handover.kv->table(handover.position),
                         .tokens = handover.position,
                         .done = {}};
  copy.done = [tell = std::move(tell),
               handover = std::move(handover)](Result<std::vector<std::byte>> image) mutable {
    tell(KvExported{std::move(handover), std::move(image)});
  };
  ++copying_;
  launcher.copy_out(std::move(copy));
}

std::optional<Result<void>> Departures::offer(const PartSeat& seat, const KvExported& message) {
  --copying_;
  const auto entry = leaving_.find(message.handover.key());
  if (entry == leaving_.end() || entry->second.buffer != message.handover.buffer) {
    return std::nullopt;
  }
  Result<void> offered = {};
  if (!message.image) {
    offered = tl::unexpected(message.image.error());
  } else {
    offered = seat.node->transport()->offer(message.handover.buffer,
                                            std::make_shared<const std::vector<std::byte>>(
                                                pack_kv_image(message.handover, *message.image)));
  }
  if (offered) {
    entry->second.offer =
        std::make_unique<BufferOffer>(*seat.node->transport(), message.handover.buffer);
  } else {
    leaving_.erase(entry);
    open_.set(leaving_.size());
  }
  return offered;
}

void Departures::release(const AttemptKey& key) {
  leaving_.erase(key);
  open_.set(leaving_.size());
}

void Departures::release(const AttemptKey& key, BufferKey buffer) {
  const auto entry = leaving_.find(key);
  if (entry != leaving_.end() && entry->second.buffer == buffer) {
    release(key);
  }
}

void Departures::lose_routers(const Wiring& before, const Wiring& now) {
  std::erase_if(leaving_, [&before, &now](const auto& entry) {
    return now.lost(before.site(entry.second.router));
  });
  open_.set(leaving_.size());
}

void Departures::expire(Instant now) {
  std::erase_if(leaving_,
                [now](const auto& entry) { return now >= entry.second.submission->deadline; });
  open_.set(leaving_.size());
}

}  // namespace shoal
