// The fields that every text API of ours shares: sampling, stop strings, how the answer is sent,
// and shoal's own ones.
#pragma once

#include <string>
#include <vector>

#include "actors/codec/json_value.h"
#include "schemas/result.h"
#include "schemas/sampling.h"

namespace shoal {

inline constexpr int kStopStringsMax = 16;
inline constexpr int kBadWordsMax = 64;
inline constexpr std::size_t kBadWordBytes = 256;

// What a request may say beyond what a sampler reads as it is.
struct ServingFields {
  ReplayMode replay = ReplayMode::kDefault;       // body field replay: "exact" | "bounded"
  CacheClass cache_class = CacheClass::kDefault;  // cache_class: "agent" | "chat"
  double timeout_s = 0;                           // timeout, in seconds; 0 = the server's default
  bool return_token_ids = false;                  // return_token_ids
  std::vector<std::string> bad_words;             // bad_words, as text
};

// How the answer is sent.
struct StreamFields {
  bool stream = false;         // stream
  bool include_usage = false;  // stream_options.include_usage, which needs stream
};

// What the client leaves out is as in `defaults`.
// temperature, top_p, top_k, min_p, the penalties, logit_bias, seed, min_tokens, stop_token_ids,
// ignore_eos: types and bounds. max_tokens and logprobs differ between the APIs and are read there.
Result<Sampling> read_sampling(const JsonValue& body, const Sampling& defaults = {});

// A string or a list of at most kStopStringsMax, none of them empty; a single empty string means
// none.
Result<std::vector<std::string>> read_stop_strings(const JsonValue& body);

Result<StreamFields> read_stream_fields(const JsonValue& body);
Result<ServingFields> read_serving_fields(const JsonValue& body);

}  // namespace shoal
