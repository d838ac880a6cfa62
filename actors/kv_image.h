// The KV of one sequence as it travels between two processes: who it belongs to and which tokens
// its penalties look at, in front of what the device exported. Nothing is imported whose identity
// differs from what the hand-over says.
#pragma once

#include <cstddef>
#include <vector>

#include "actors/interfaces.h"
#include "schemas/result.h"

namespace shoal {

std::vector<std::byte> pack_kv_image(const Handover& handover,
                                     const std::vector<std::byte>& exported);

// kCorrupt: it belongs to another attempt or another place in it.
Result<void> check_kv_image(const Handover& handover, const std::vector<std::byte>& image);

struct KvImageFront {
  TokenTallyPtr seen;      // null: there is none
  std::size_t device = 0;  // where the device's image begins
};

// Of an image that passed check_kv_image. kCorrupt: it ends too early.
Result<KvImageFront> front_of_kv_image(const std::vector<std::byte>& image);

}  // namespace shoal
