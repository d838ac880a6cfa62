// Draws one token of a row of logits. Pure: the same logits, parameters, seed, choice and position
// give the same token, so text does not depend on batch, rank, resume, or whether a draft was
// tried.
//
// Order: repetition penalty (logits of tokens of prompt or answer are divided by it, or multiplied
// where they are below 0); frequency penalty times how often the answer has a token, and presence
// penalty where it has it, are taken off; biases are added; forbidden tokens out; / temperature;
// top-k; then top-p and min-p, both on the softmax of what top-k left; then argmax of logit / T +
// Gumbel noise. Ties go to the lower id. Temperature 0 is argmax of the logits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "schemas/ids.h"
#include "schemas/token_tally.h"

namespace shoal::kernels {

struct SamplerInput {
  std::span<const float> logits = {};  // [vocab]
  float temperature = 1.0F;
  float top_p = 1.0F;  // 1 = off
  float min_p = 0.0F;  // 0 = off
  int top_k = 0;       // 0 = off
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;          // which of the n answers of a request
  std::int64_t position = 0;         // of the token to be drawn, in its sequence
  float repetition_penalty = 1.0F;   // 1 = off
  float frequency_penalty = 0.0F;    // 0 = off
  float presence_penalty = 0.0F;     // 0 = off
  const TokenTally* seen = nullptr;  // what penalties look at; null: there are none
  std::span<const std::pair<TokenId, float>> bias = {};
  std::span<const TokenId> forbidden = {};  // never drawn
  int logprobs = -1;  // -1 = none, 0 = the token's only, n = the n likeliest as well
  std::optional<TokenId> chosen = {};  // elsewhere: nothing is drawn
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0.0F;

  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

struct Sampled {
  TokenId token = 0;
  float logprob = 0.0F;                // of the unmodified softmax; 0 unless asked for
  std::vector<TokenLogprob> top = {};  // likeliest first, ties to the lower id
  float margin = 0.0F;                 // best minus second best of the unmodified logits
};

// nullopt: no token is possible (every logit is forbidden, -inf or NaN).
std::optional<Sampled> sample(const SamplerInput& in);

// The distribution tokens are drawn from: fp32 [vocab], renormalised; one-hot at temperature 0.
std::vector<float> probabilities(const SamplerInput& in);

// Gumbel-max in its division form: argmax p / noise with noise drawn from Exp(1); the lower id wins
// a tie.
TokenId pick(std::span<const float> p, std::span<const float> noise);

// Counter-based noise: SplitMix64 (Steele, Lea, Flood 2014) at counter token + 1 of a stream whose
// 64-bit start hashes (seed, choice, position) with the same finaliser.
struct NoiseStream {
  std::uint64_t start = 0;
};

NoiseStream noise_stream(std::uint64_t seed, std::uint32_t choice, std::int64_t position);
// On (0, 1) in steps of 2^-52.
double uniform(NoiseStream stream, TokenId token);
// Standard Gumbel, -log(-log(u)), u of uniform().
double gumbel(NoiseStream stream, TokenId token);

}  // namespace shoal::kernels
