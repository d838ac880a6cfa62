// When an answer ends and which tokens it may not contain yet: EOS and stop tokens from min_tokens
// on, max_tokens at the latest.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/ids.h"
#include "schemas/sampling.h"

namespace shoal {

struct AnswerRules {
  std::int64_t min_tokens = 0;
  std::int64_t max_tokens = 0;  // already cut to the context
  std::vector<TokenId>
      end_tokens;  // any of them ends the answer: EOS unless ignored, and the client's
};

enum class AnswerEnd : std::uint8_t { kGoesOn, kEndToken, kLength };

AnswerRules answer_rules(const Sampling& sampling, std::int64_t max_tokens, TokenId eos);

// After `token` became the answer's token number `count` (from 1).
AnswerEnd answer_end(const AnswerRules& rules, std::int64_t count, TokenId token);

// What the sampler must not draw as the next token of an answer that has `count` tokens.
std::vector<TokenId> forbidden_tokens(const AnswerRules& rules, std::int64_t count);

}  // namespace shoal
