// Rejection sampling of drafts (Leviathan, Kalman, Matias 2023), to be compared with drafts that
// share the target's noise: tokens have the target's distribution, but which they are depends on
// whether drafts were tried.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sampler.h"
#include "schemas/ids.h"

namespace shoal::kernels {

enum class Acceptance : std::uint8_t {
  kCoupled,    // a draft is accepted if it is the token that the target draws
  kRejection,  // a draft of probability q is accepted with chance min(1, p / q)
};

// What a draw of a position is for: their noise is independent.
enum class DrawFor : std::uint8_t { kDraft = 1, kAcceptance, kRest };

NoiseStream noise_for(DrawFor use, const SamplerInput& in);

// The draft of `in`, from its distribution `q`.
TokenId draw_draft(const SamplerInput& in, std::span<const float> q);

// Of a target and a draft distribution [vocab]; `uniform` on [0, 1).
bool is_accepted(std::span<const float> p, std::span<const float> q, TokenId draft, float uniform);

// Instead of a draft that was not accepted: from what p has more than q. `noise` [vocab], Exp(1).
TokenId pick_rest(std::span<const float> p, std::span<const float> q, std::span<const float> noise);

// The token of `in`, in whose place there is a draft of the distribution `q`.
TokenId accept_or_draw(const SamplerInput& in, TokenId draft, std::span<const float> q);

}  // namespace shoal::kernels
