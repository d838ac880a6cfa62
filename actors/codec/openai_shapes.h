// What all OpenAI-shaped answers share: who answers, usage, finish reasons, log probabilities,
// errors, event framing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/codec/stream_events.h"
#include "actors/codec/tokenizer.h"
#include "schemas/ids.h"
#include "schemas/result.h"

namespace shoal {

// The same in every chunk of an answer.
struct AnswerInfo {
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string fingerprint;  // empty: null
};

// Of all choices together.
struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt, not computed again
  std::int64_t completion_tokens = 0;
  std::int64_t reasoning_tokens = 0;
  bool has_reasoning = false;
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top;
};

// What ended an answer besides EOS and length; at most one is given.
struct StopCause {
  std::string_view text;  // a stop string
  TokenId token = -1;     // one of stop_token_ids
};

// What an error object says; empty ones of `param` (the field at fault) and `code` are null.
struct ErrorShape {
  std::string_view message;
  std::string_view type;
  std::string_view param{};
  std::string_view code{};
};

std::string_view finish_reason_name(EndReason reason);

void append_usage(std::string& out, const Usage& usage);

// A token for people: its text, bytes that are no text as \xNN.
std::string token_label(const Tokenizer& tokenizer, TokenId id);
// -infinity and less than the floor become -9999.0, as the official API prints it.
void append_logprob(std::string& out, float logprob);
// The list inside a chat choice's "logprobs".
void append_chat_logprobs(std::string& out,
                          const Tokenizer& tokenizer,
                          std::span<const TokenLogprob* const> entries);

// {"error": {...}}
std::string error_body(const ErrorShape& error);

// Server-sent events: begin_event appends "data: ", end_event the blank line.
inline void begin_event(std::string& out) {
  out += "data: ";
}

inline void end_event(std::string& out) {
  out += "\n\n";
}

inline void append_done_event(std::string& out) {
  out += "data: [DONE]\n\n";
}

}  // namespace shoal
