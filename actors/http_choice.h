// One choice of an answer: its tokens to decoder events, and where a stop string cut it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "actors/codec/decoder_setup.h"
#include "actors/codec/openai_shapes.h"
#include "actors/codec/stream_decoder.h"
#include "actors/codec/stream_events.h"
#include "actors/http_answer.h"
#include "actors/http_service.h"
#include "schemas/result.h"

namespace shoal {

class HttpChoice {
 public:
  HttpChoice(const ServedModel& model, DecoderSetup setup);

  // Appends events; the last one is kEnd when the answer ended, by the node's finish or by what the
  // decoder found. Says how many tokens count when the decoder ended it.
  Result<std::optional<std::int64_t>> add(const ChoiceTokens& tokens,
                                          std::vector<StreamEvent>& events);

  std::uint32_t completion_tokens() const { return decoder_->completion_tokens(); }

  std::uint32_t reasoning_tokens() const { return decoder_->reasoning_tokens(); }

 private:
  TokenId eos_;
  std::unique_ptr<StreamDecoder> decoder_;  // which cannot move
};

TokenLogprob shown_logprob(const LogprobEntry& entry);

}  // namespace shoal
