// Oldest out first: all live equally long.
#include "actors/tail_keeper.h"

#include <utility>

namespace shoal {

bool TailKeeper::keep(BufferKey key,
                      kernels::BlockBytes bytes,
                      transport::Transport* transport,
                      Instant now) {
  const auto size = static_cast<std::int64_t>(bytes->size());
  if (size > limits_.bytes.value) {
    return false;
  }
  while (bytes_.value + size > limits_.bytes.value) {
    drop_oldest();
  }
  if (transport != nullptr && !transport->offer(key, bytes)) {
    return false;
  }
  auto offer = transport == nullptr ? nullptr : std::make_unique<BufferOffer>(*transport, key);
  bytes_.value += size;
  kept_.emplace(key, Kept{std::move(bytes), now + limits_.life, std::move(offer)});
  return true;
}

void TailKeeper::drop_oldest() {
  const auto oldest = kept_.begin();
  bytes_.value -= static_cast<std::int64_t>(oldest->second.bytes->size());
  kept_.erase(oldest);
}

kernels::BlockBytes TailKeeper::find(BufferKey key) const {
  const auto kept = kept_.find(key);
  return kept == kept_.end() ? nullptr : kept->second.bytes;
}

void TailKeeper::expire(Instant now) {
  while (!kept_.empty() && kept_.begin()->second.until <= now) {
    drop_oldest();
  }
}

}  // namespace shoal
