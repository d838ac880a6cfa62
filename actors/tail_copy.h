// How workers keep the tail of a sequence whose prompt or answer ended.
#pragma once

#include <cstddef>
#include <vector>

#include "actors/context.h"
#include "actors/interfaces.h"
#include "schemas/result.h"

namespace shoal {

// In front of the device's image: SessionTail::identity, little-endian.
inline constexpr std::size_t kTailHeader = 8;

// kCorrupt: the bytes are not those of the tail that was asked for.
Result<void> check_tail(const TailPlace& place, const std::vector<std::byte>& bytes);

// Copies it out behind what runs on `queue` and gives it to the node's kv client. The lease rides
// with the copy. Nothing, where none of its blocks is stored.
void keep_tail(const PartSeat& seat,
               std::uint32_t rank,
               const Handover& sequence,
               kernels::Queue queue);

}  // namespace shoal
