// Every use of randomness of a position has a noise stream of its own.
#include "kernels/rejection.h"

#include <algorithm>

#include "kernels/portable_math.h"

namespace shoal::kernels {
namespace {

std::vector<float> exponential_noise(NoiseStream stream, std::size_t count) {
  std::vector<float> noise(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double u = uniform(stream, static_cast<TokenId>(i));
    noise[i] = static_cast<float>(-portable::log(u));
  }
  return noise;
}

}  // namespace

NoiseStream noise_for(DrawFor use, const SamplerInput& in) {
  const NoiseStream position = noise_stream(in.seed, in.choice, in.position);
  return noise_stream(position.start, static_cast<std::uint32_t>(use), in.position);
}

TokenId draw_draft(const SamplerInput& in, std::span<const float> q) {
  return pick(q, exponential_noise(noise_for(DrawFor::kDraft, in), q.size()));
}

bool is_accepted(std::span<const float> p, std::span<const float> q, TokenId draft, float uniform) {
  const auto id = static_cast<std::size_t>(draft);
  return uniform * q[id] < p[id];
}

TokenId pick_rest(std::span<const float> p,
                  std::span<const float> q,
                  std::span<const float> noise) {
  std::vector<float> rest(p.size());
  std::transform(p.begin(), p.end(), q.begin(), rest.begin(), [](float a, float b) {
    return std::max(a - b, 0.0F);
  });
  const bool none = *std::max_element(rest.begin(), rest.end()) <= 0.0F;
  return pick(none ? p : std::span<const float>(rest), noise);
}

TokenId accept_or_draw(const SamplerInput& in, TokenId draft, std::span<const float> q) {
  const std::vector<float> p = probabilities(in);
  const double u = uniform(noise_for(DrawFor::kAcceptance, in), 0);
  if (is_accepted(p, q, draft, static_cast<float>(u))) {
    return draft;
  }
  return pick_rest(p, q, exponential_noise(noise_for(DrawFor::kRest, in), p.size()));
}

}  // namespace shoal::kernels
