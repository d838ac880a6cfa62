// The KV of one sequence as it travels between two processes: who it belongs to, in front of what
// the device exported. Nothing is imported whose identity differs from what the hand-over says.
#pragma once

#include <cstddef>
#include <vector>

#include "actors/interfaces.h"
#include "schemas/result.h"

namespace shoal {

// Bytes in front of the device's image.
inline constexpr std::size_t kKvImageHeader = 40;

std::vector<std::byte> pack_kv_image(const Handover& handover,
                                     const std::vector<std::byte>& exported);

// kCorrupt: it belongs to another attempt or another place in it.
Result<void> check_kv_image(const Handover& handover, const std::vector<std::byte>& image);

}  // namespace shoal
