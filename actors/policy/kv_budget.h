// How much KV memory an answer may need at most, and whether it fits. The worst case is reserved
// before the first row runs, so an answer that started can always finish: waiting happens in queues
// only, never between two holders of memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

struct KvRoom {
  std::int64_t blocks = 0;
  std::int64_t sequences = 0;
};

// Tokens an answer may have: what the client asked for, cut to the context (`max_tokens` 0: the
// rest of it).
constexpr std::int64_t answer_ceiling(Position prompt, std::int64_t max_tokens, Position context) {
  const std::int64_t rest = context - prompt;
  return max_tokens == 0 ? rest : std::min<std::int64_t>(max_tokens, rest);
}

constexpr std::int64_t worst_case_blocks(Position prompt, std::int64_t answer) {
  return (prompt + answer + kBlockTokens - 1) / kBlockTokens;
}

constexpr bool fits(const KvRoom& room, std::int64_t blocks) {
  return room.sequences >= 1 && room.blocks >= blocks;
}

}  // namespace shoal
