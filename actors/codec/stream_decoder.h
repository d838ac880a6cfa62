// Tokens of one answer in, events for the client out: the only way model output becomes an API
// answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/codec/answer_machine.h"
#include "actors/codec/decoder_setup.h"
#include "actors/codec/model_profile.h"
#include "actors/codec/stream_events.h"
#include "actors/codec/tokenizer.h"
#include "actors/codec/tokenizer_utf8.h"
#include "schemas/ids.h"
#include "schemas/result.h"

namespace shoal {

// A delimiter spelled out in text: its first text_bytes are ordinary text, the rest is the mark.
struct SpelledMark {
  std::string spelling;
  std::size_t text_bytes;
  Mark mark;
  bool is_closer;
};

// The joined result does not depend on how the tokens are cut into pushes. Only control ids are
// delimiters; the same spelling from ordinary tokens is text. One answer, one thread; tokenizer and
// profile must outlive it.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, const ModelProfile& profile, DecoderSetup setup);

  // Appends what is decided to `events`. A token outside the vocabulary is kInternal: the engine is
  // broken, the request fails. Tokens after the end (see has_ended) are ignored.
  Result<void> push(TokenId id, std::vector<StreamEvent>& events);
  Result<void> push(const std::vector<TokenId>& ids, std::vector<StreamEvent>& events);

  // Engines that deliver text: spelled-out delimiters count as delimiters. `tokens` is how many
  // tokens made it.
  void push_text(std::string_view text, std::uint32_t tokens, std::vector<StreamEvent>& events);

  // A token that is counted but never shown: one of stop_token_ids, which ends the answer.
  void count_hidden_token();

  // The engine ended the answer. Does nothing after an end of the decoder's own.
  void finish(EndReason reason, std::vector<StreamEvent>& events);

  // A stop string, EOS or a role token ended the answer: the engine's work on it can be freed.
  bool has_ended() const { return has_ended_; }

  std::uint32_t completion_tokens() const { return completion_tokens_; }

  std::uint32_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  void take_id(TokenId id, EventList& events);
  void take_mark(Mark mark, EventList& events);
  void take_chars(EventList& events);
  void take_spelled(EventList& events, bool at_end);
  void end(EndReason reason, std::vector<StreamEvent>& events);
  void end_push(EventList& list, std::vector<StreamEvent>& events);
  void claim_tokens(EventList& list);
  bool ends_turn(TokenId id) const;

  const Tokenizer& tokenizer_;
  const ModelProfile& profile_;
  DecoderSetup setup_;
  AnswerMachine machine_;
  std::vector<SpelledMark> spelled_;
  Utf8Carry carry_;
  std::string chars_;  // decoded and not yet given to the machine; in text pushes also what may
                       // become a delimiter
  bool turn_ended_ = false;
  bool has_ended_ = false;
  std::uint32_t completion_tokens_ = 0;
  std::uint32_t reasoning_tokens_ = 0;
  std::vector<std::uint32_t>
      unclaimed_tokens_;  // tokens whose text has not left yet (track_tokens)
};

}  // namespace shoal
