// What a device knows of a sequence behind its last step, before anybody reads that step's result:
// the token that was drawn, how the one after it is chosen, and drafts of those that follow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/rejection.h"
#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal::kernels {

struct Continuation {
  Position next = 0;  // of the token
  TokenId token = 0;
  SampleSpec sampling;  // of the one behind it
  bool ended = false;   // nothing follows
  std::vector<TokenId> drafts{};
  std::vector<float> confidence{};            // as RunResult's
  std::vector<std::vector<float>> draft_p{};  // [vocab] of each, for rejection
};

// Draws a token from each row [vocab] of `logits`, the first for `position`, as long as the token
// is the row's draft; `next` has the drafts, and how the first token is chosen, and then what
// follows the last.
std::vector<DrawnToken> draw_tokens(const RowRun& run,
                                    Position position,
                                    std::span<const float> logits,
                                    std::int64_t vocab,
                                    Acceptance acceptance,
                                    Continuation& next);

// Chooses drafts of what follows the token of `next`, one behind the other; none behind one that
// ends the answer. With acceptance coupled, they are drawn with the noise of the tokens that they
// are to be.
class DraftChoice {
 public:
  // Both outlive it. Distributions go to next.draft_p.
  DraftChoice(const SampleRules& rules, Acceptance acceptance, Continuation& next);

  // Below 0: none.
  TokenId choose(std::span<const float> logits);

 private:
  std::optional<TokenId> draw(std::span<const float> logits);

  const SampleRules& rules_;
  const Acceptance acceptance_;
  Continuation& next_;
  SampleSpec sampling_;
  Position position_;
  bool ended_ = false;
};

}  // namespace shoal::kernels
