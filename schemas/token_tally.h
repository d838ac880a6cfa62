// The tokens of a sequence so far, as penalties and bad words look at them.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "schemas/ids.h"

namespace shoal {

struct TokenTally {
  // Ascending, each once, of the prompt; null where nothing asks for it.
  std::shared_ptr<const std::vector<TokenId>> prompt;
  std::vector<std::pair<TokenId, std::int32_t>> answer;  // ascending, how often each came
  std::vector<TokenId> recent;                           // the end of the answer, oldest first
};

// Steps in flight share it, so whoever adds to it makes a new one.
using TokenTallyPtr = std::shared_ptr<const TokenTally>;

}  // namespace shoal
