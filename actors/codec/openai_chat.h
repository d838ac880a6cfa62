// Stream events of a chat answer as Chat Completions JSON: chunks while it grows, or one body at
// the end.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/codec/openai_shapes.h"
#include "actors/codec/stream_events.h"

namespace shoal {

struct ChatShape {
  AnswerInfo info;
  bool thinking = false;
  // 24 letters and digits, drawn once per choice: the end of its call ids (call_NN_...).
  std::string call_suffix;
  // Null: no log probabilities were asked for. Else the events must have been tracked
  // (DecoderSetup::track_tokens).
  const Tokenizer* logprob_tokenizer = nullptr;
};

// One choice, streamed. Each call appends whole server-sent events.
class ChatChunks {
 public:
  ChatChunks(ChatShape shape, int choice);

  // The role; before the first event.
  void begin(std::string& out) const;
  // Any event but the end. `logprobs`: of all tokens of the answer so far.
  void event(const StreamEvent& event,
             std::span<const TokenLogprob> logprobs,
             std::string& out) const;
  // The finish reason. `usage` rides on the last chunk of the last choice; null on the others.
  void end(EndReason reason, const Usage* usage, std::string& out) const;

 private:
  void open_delta(std::string& out) const;
  void close_delta(const StreamEvent* event,
                   std::span<const TokenLogprob> logprobs,
                   std::string& out) const;
  void close_chunk(std::string_view finish_reason, const Usage* usage, std::string& out) const;

  ChatShape shape_;
  std::string head_;  // of every chunk, up to and with the choice's index
};

// One choice, collected.
class ChatChoice {
 public:
  explicit ChatChoice(ChatShape shape) : shape_(std::move(shape)) {}

  void add(const StreamEvent& event, std::span<const TokenLogprob> logprobs);
  void append(std::string& out, int choice) const;

  const AnswerInfo& info() const { return shape_.info; }

 private:
  struct Call {
    std::string name;
    std::string arguments;
  };

  ChatShape shape_;
  std::string reasoning_;
  std::string content_;
  std::vector<Call> calls_;
  std::vector<TokenLogprob> reasoning_logprobs_;
  std::vector<TokenLogprob> content_logprobs_;
  EndReason reason_ = EndReason::kStop;
};

// The whole body. At least one choice.
void append_chat_completion(std::string& out,
                            std::span<const ChatChoice> choices,
                            const Usage& usage);

}  // namespace shoal
