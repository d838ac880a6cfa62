// How workers keep the tail of a sequence whose prompt or answer ended.
#pragma once

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

// Copies it out behind what runs on `queue` and gives it to the node's kv client. The lease rides
// with the copy. Nothing, where none of its blocks is stored.
void keep_tail(const PartSeat& seat,
               std::uint32_t rank,
               const Handover& sequence,
               kernels::Queue queue);

}  // namespace shoal
