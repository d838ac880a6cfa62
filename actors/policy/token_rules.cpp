// Kept as small as what asks for it: the prompt for repetition only, the end of the answer for bad
// words only.
#include "actors/policy/token_rules.h"

#include <algorithm>
#include <utility>

namespace shoal {
namespace {

std::size_t longest_bad_word(const Sampling& sampling) {
  std::size_t longest = 0;
  for (const std::vector<TokenId>& word : sampling.bad_words) {
    longest = std::max(longest, word.size());
  }
  return longest;
}

bool has_penalty(const Sampling& sampling) {
  return sampling.repetition_penalty != 1.0F || sampling.frequency_penalty != 0.0F ||
         sampling.presence_penalty != 0.0F;
}

void add(TokenTally& tally, const Sampling& sampling, TokenId token) {
  if (has_penalty(sampling)) {
    const auto place =
        std::lower_bound(tally.answer.begin(), tally.answer.end(), std::pair(token, 0));
    if (place != tally.answer.end() && place->first == token) {
      ++place->second;
    } else {
      tally.answer.insert(place, {token, 1});
    }
  }
  if (const std::size_t longest = longest_bad_word(sampling); longest > 1) {
    tally.recent.push_back(token);
    if (tally.recent.size() >= longest) {
      tally.recent.erase(tally.recent.begin());
    }
  }
}

}  // namespace

TokenTallyPtr tally_of(const Sampling& sampling,
                       std::span<const TokenId> prompt,
                       std::span<const TokenId> answered) {
  if (!has_penalty(sampling) && longest_bad_word(sampling) < 2) {
    return nullptr;
  }
  TokenTally tally;
  if (sampling.repetition_penalty != 1.0F) {
    std::vector<TokenId> tokens(prompt.begin(), prompt.end());
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    tally.prompt = std::make_shared<const std::vector<TokenId>>(std::move(tokens));
  }
  for (const TokenId token : answered) {
    add(tally, sampling, token);
  }
  return std::make_shared<const TokenTally>(std::move(tally));
}

void add_token(TokenTallyPtr& tally, const Sampling& sampling, TokenId token) {
  if (tally == nullptr) {
    return;
  }
  TokenTally next = *tally;
  add(next, sampling, token);
  tally = std::make_shared<const TokenTally>(std::move(next));
}

std::vector<TokenId> ends_of_bad_words(const Sampling& sampling, const TokenTally* tally) {
  static const std::vector<TokenId> kNone;
  const std::vector<TokenId>& recent = tally == nullptr ? kNone : tally->recent;
  std::vector<TokenId> ends;
  for (const std::vector<TokenId>& word : sampling.bad_words) {
    const std::size_t before = word.size() - 1;
    if (before <= recent.size() &&
        std::equal(
            word.begin(), word.end() - 1, recent.end() - static_cast<std::ptrdiff_t>(before))) {
      ends.push_back(word.back());
    }
  }
  return ends;
}

}  // namespace shoal
