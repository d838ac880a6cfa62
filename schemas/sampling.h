// What a client may ask of the sampler: one plain struct, filled by the codec and read by the
// worker that draws tokens.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "schemas/ids.h"

namespace shoal {

// Order of use: penalties and bias, divide by temperature, top_k, then top_p and min_p on the
// softmax of that, then the seeded draw. temperature 0 means argmax (lowest id wins a tie).
struct Sampling {
  float temperature = 1.0F;
  float top_p = 1.0F;               // (0, 1]; 1 = off
  float min_p = 0.0F;               // [0, 1]; share of the likeliest token's probability; 0 = off
  int top_k = 0;                    // 0 = off
  float frequency_penalty = 0.0F;   // -2 .. 2
  float presence_penalty = 0.0F;    // -2 .. 2
  float repetition_penalty = 1.0F;  // > 0; 1 = off
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<std::vector<TokenId>> bad_words;  // not drawn as the answer's next tokens; none empty

  std::uint64_t seed =
      0;  // valid when has_seed; else drawn once by the gateway and kept with the request
  bool has_seed = false;

  int max_tokens = 0;  // most tokens of the answer, 0 = as many as the context holds
  int min_tokens = 0;  // no stop token may be drawn before this many
  std::vector<TokenId> stop_token_ids;  // end the answer like EOS does
  bool ignore_eos = false;
  int logprobs = -1;  // -1 = none, 0 = the chosen token's only, n = the n likeliest as well (at
                      // most kMaxLogprobs)

  friend bool operator==(const Sampling&, const Sampling&) = default;
};

inline constexpr int kMaxLogprobs = 20;
inline constexpr int kMaxChoices = 16;

// How prefix KV may be reused: exact recomputes nothing approximately, bounded may rebuild window
// state by a bounded replay.
enum class ReplayMode : std::uint8_t { kDefault, kExact, kBounded };
// How long the KV of this request is kept; kDefault lets the gateway choose by whether tools are
// present.
enum class CacheClass : std::uint8_t { kDefault, kAgent, kChat };

}  // namespace shoal
