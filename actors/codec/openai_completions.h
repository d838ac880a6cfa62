// POST /v1/completions: its request, and its answers in the field names of OpenAI and vLLM.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/codec/json_value.h"
#include "actors/codec/openai_shapes.h"
#include "actors/codec/sampling_fields.h"
#include "actors/codec/tokenizer_utf8.h"
#include "schemas/ids.h"
#include "schemas/result.h"
#include "schemas/sampling.h"

namespace shoal {

struct CompletionRequest {
  std::string model;
  std::string prompt;  // when prompt_ids is empty
  std::vector<TokenId> prompt_ids;
  bool prompt_is_ids = false;

  Sampling sampling;  // max_tokens 16 when not given, as OpenAI
  std::vector<std::string> stop;
  int choices = 1;
  bool echo = false;  // the answer begins with the prompt
  bool stream = false;
  bool include_usage = false;
  ServingFields serving;
};

// One prompt a request: a string, a list of token ids, or a list with one of either. Errors are
// kInvalid and name the field. `context`: tokens of prompt and answer, for what they say.
Result<CompletionRequest> read_completion_request(
    const JsonValue& body,
    const Sampling& defaults = {},
    std::int64_t context = std::numeric_limits<int>::max());

struct CompletionShape {
  AnswerInfo info;
  const Tokenizer* tokenizer = nullptr;  // for log probabilities
  bool logprobs = false;
  bool return_token_ids = false;
  std::vector<TokenId> prompt_ids;  // shown once with return_token_ids
  TokenId eos = -1;                 // never part of the text
};

// One choice, streamed or collected: the same pieces either way.
class CompletionChoice {
 public:
  CompletionChoice(const CompletionShape& shape, int choice) : shape_(shape), choice_(choice) {}

  // A chunk with what one step brought: text that was let go (may be empty), and the step's tokens.
  // With echo, call it first with the prompt's text and no tokens.
  void append_chunk(std::string_view text,
                    std::span<const TokenId> tokens,
                    std::span<const TokenLogprob> logprobs,
                    std::string& out);
  // The last chunk: the rest of the text and why it ended.
  void append_last_chunk(std::string_view text,
                         EndReason reason,
                         const StopCause& cause,
                         std::string& out);

  // The same into memory, for the answer in one body.
  void collect(std::string_view text,
               std::span<const TokenId> tokens,
               std::span<const TokenLogprob> logprobs);
  void collect_end(std::string_view text, EndReason reason, const StopCause& cause);
  void append_collected(std::string& out) const;

 private:
  struct Piece {
    std::string_view text;
    std::span<const TokenId> tokens;
    std::span<const TokenLogprob> logprobs;
    std::span<const std::size_t> offsets;  // one per token, when log probabilities are shown
    bool with_prompt_ids;
  };

  std::vector<std::size_t> place(std::string_view text, std::span<const TokenId> tokens);
  void append_choice(const Piece& piece, const std::string* finish, std::string& out) const;
  void append_logprobs(const Piece& piece, std::string& out) const;
  void append_event(const Piece& piece, const std::string* finish, std::string& out) const;

  const CompletionShape& shape_;
  int choice_;
  bool began_ = false;
  Utf8Carry carry_;
  std::size_t placed_chars_ = 0;  // of the text that the tokens so far make
  std::string text_;
  std::vector<TokenId> tokens_;
  std::vector<TokenLogprob> logprobs_;
  std::vector<std::size_t> offsets_;
  std::string finish_;  // "finish_reason" and "stop_reason" as JSON members
};

// With stream_options.include_usage: one more chunk without choices.
void append_completion_usage_chunk(std::string& out, const AnswerInfo& info, const Usage& usage);
// The whole body.
void append_completion(std::string& out,
                       const CompletionShape& shape,
                       std::span<const CompletionChoice> choices,
                       const Usage& usage);

}  // namespace shoal
