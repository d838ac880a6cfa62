// One machine over (text | control token) that tells reasoning, content and calls apart, whatever
// the cutting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "actors/codec/call_machine.h"
#include "actors/codec/decoder_setup.h"
#include "actors/codec/stop_matcher.h"
#include "actors/codec/stream_events.h"

namespace shoal {

// The control tokens that structure an answer; all others are text by their spelling or end the
// turn.
enum class Mark : std::uint8_t { kThinkClose, kDsml };

struct MarkSpellings {
  std::string think_close = "</think>";
  std::string dsml = "｜DSML｜";
};

// Holds back only what may still become a delimiter: newlines before one (at most
// kNewlinesHeldMax), "<" and "</", a stop string's beginning, a tag that is not decided. Nothing
// that was let go is taken back.
class AnswerMachine {
 public:
  static constexpr std::size_t kNewlinesHeldMax = 64;

  AnswerMachine(const DecoderSetup& setup, MarkSpellings spellings);
  AnswerMachine(const AnswerMachine&) = delete;
  AnswerMachine& operator=(const AnswerMachine&) = delete;

  // Whole characters. Returns early when a stop string ends the answer.
  void text(std::string_view text, EventList& events);
  void mark(Mark mark, EventList& events);
  // Call at the end of each push: lets go what is decided.
  void flush(EventList& events);
  // The answer ended: what is held goes out by the rules of its state.
  void finish(EventList& events);

  bool in_reasoning() const { return state_ == State::kReasoning; }

  bool in_calls() const { return state_ == State::kCalls; }

  // Whether "</DSML" can be markup now.
  bool closers_matter() const { return state_ == State::kCalls || opened_block_; }

  bool is_stopped() const { return stop_.has_value(); }

  std::optional<std::size_t> stop_string() const { return stop_; }

  bool has_completed_call() const { return calls_.has_completed_call(); }

 private:
  enum class State : std::uint8_t {
    kReasoning,
    kContent,
    kJsonProse,  // JSON mode: what stands before the value is not shown
    kJsonBody,
    kDropped,  // text behind a finished block of calls or JSON value
    kOpener,   // behind "<DSML": the opening of a block, or text
    kCloser,   // behind a stray "</DSML": markup if it is a tag, or text
    kCalls,
  };

  // Where in an undecided opening the machine is.
  enum class Opener : std::uint8_t {
    kTag,   // the first tag
    kGap,   // behind a wrapper of no known name: markup only if a call follows
    kCall,  // behind the DSML token of that call
  };

  void byte(char byte, EventList& events);
  void shown_byte(char byte, EventList& events);
  void json_prose_byte(char byte, EventList& events);
  void opener_byte(char byte, EventList& events);
  void closer_byte(char byte, EventList& events);
  void calls_byte(char byte, EventList& events);

  void think_close(EventList& events);
  void dsml(EventList& events);
  void decide_later(State state, std::string_view opener, EventList& events);
  void revert(EventList& events);
  void enter_calls(bool at_invoke);
  void leave_calls();

  State content_state() const { return setup_.json ? State::kJsonProse : State::kContent; }

  bool shows_text() const {
    return state_ != State::kOpener && state_ != State::kCloser && state_ != State::kCalls;
  }

  bool shows_content() const { return state_ == State::kContent || state_ == State::kJsonBody; }

  void let_go(std::size_t bytes, EventList& events);
  std::size_t undecided() const;
  std::string take_newlines(std::size_t end);
  void enter(State state);

  DecoderSetup setup_;
  MarkSpellings spellings_;
  StopMatcher stops_;
  CallMachine calls_;

  State state_ = State::kContent;
  State origin_ = State::kContent;  // where a tag that is no markup goes back to
  bool lead_ = true;                // newlines are dropped until the first other byte
  bool opened_block_ = false;       // stray closers are markup from then on
  std::string held_;                // text of the current state that is not let go
  std::string pending_;             // kOpener, kCloser: all of the tag as text
  std::size_t tag_start_ = 0;       // in pending_: behind the DSML token
  Opener opener_ = Opener::kTag;
  std::string prose_tail_;  // kJsonProse: the last bytes, where a fence may end
  std::optional<std::size_t> stop_;
};

}  // namespace shoal
