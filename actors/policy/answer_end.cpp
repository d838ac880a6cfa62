// An end token wins over the length: an answer whose last allowed token is EOS stopped by itself.
#include "actors/policy/answer_end.h"

#include <algorithm>

namespace shoal {

AnswerRules answer_rules(const Sampling& sampling, std::int64_t max_tokens, TokenId eos) {
  AnswerRules rules{sampling.min_tokens, max_tokens, sampling.stop_token_ids};
  if (!sampling.ignore_eos) {
    rules.end_tokens.push_back(eos);
  }
  return rules;
}

AnswerEnd answer_end(const AnswerRules& rules, std::int64_t count, TokenId token) {
  if (std::find(rules.end_tokens.begin(), rules.end_tokens.end(), token) !=
      rules.end_tokens.end()) {
    return AnswerEnd::kEndToken;
  }
  return count >= rules.max_tokens ? AnswerEnd::kLength : AnswerEnd::kGoesOn;
}

std::vector<TokenId> forbidden_tokens(const AnswerRules& rules, std::int64_t count) {
  return count < rules.min_tokens ? rules.end_tokens : std::vector<TokenId>{};
}

}  // namespace shoal
