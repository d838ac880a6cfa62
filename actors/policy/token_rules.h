// What a request's penalties, biases and bad words look at, kept as its answer grows.
#pragma once

#include <span>
#include <vector>

#include "schemas/ids.h"
#include "schemas/sampling.h"
#include "schemas/token_tally.h"

namespace shoal {

// Of a sequence whose answer begins with `answered`; null where nothing of the request looks at it.
TokenTallyPtr tally_of(const Sampling& sampling,
                       std::span<const TokenId> prompt,
                       std::span<const TokenId> answered);

// `token` became the next of the answer.
void add_token(TokenTallyPtr& tally, const Sampling& sampling, TokenId token);

// The last tokens of bad words whose others end the answer so far. `tally` may be null.
std::vector<TokenId> ends_of_bad_words(const Sampling& sampling, const TokenTally* tally);

}  // namespace shoal
