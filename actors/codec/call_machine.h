// The inside of a block of tool calls: tags and values in, names and argument JSON out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "actors/codec/json_argument.h"
#include "actors/codec/stream_events.h"

namespace shoal {

// Structure is made by the DSML token alone; junk between tags is skipped, tags of other
// generations and misspelt closers are understood. Nothing is repaired into a call that the model
// did not finish.
class CallMachine {
 public:
  // `dsml`: its spelling, for the places where the token is text. Must outlive the machine.
  explicit CallMachine(std::string_view dsml) : dsml_(dsml) {}

  // Behind an opening tag of the block.
  void enter_block();
  // Behind the name of a bare opening tag "<DSML invoke".
  void enter_invoke();

  void byte(char byte, EventList& events);
  void dsml(EventList& events);
  // The answer ended: what is held inside an unfinished call goes out as it is.
  void cut_off(EventList& events);

  bool is_closed() const { return state_ == State::kClosed; }

  // Calls begun since the block was entered; calls completed in the whole answer.
  bool has_calls() const { return calls_ > calls_at_entry_; }

  bool has_completed_call() const { return completed_ > 0; }

 private:
  enum class State : std::uint8_t {
    kBetween,     // between tags, inside or outside of a call
    kOpenTag,     // behind "<DSML": the tag's name
    kCloseTag,    // behind "</DSML": the same
    kInvoke,      // looking for name=" of a call
    kName,        // the call's name, up to its quote
    kParameter,   // looking for name=" of a parameter
    kKey,         // the parameter's name
    kAttributes,  // from the end of the key to ">"
    kValue,
    kValueTag,  // behind "<DSML" inside a value: a tag whose closer is missing, or text
    kClosed,    // the block is over
  };

  void between(char byte);
  void open_tag(char byte, EventList& events);
  void close_tag(char byte, EventList& events);
  void header(char byte, EventList& events);
  void name(char byte, EventList& events);
  void key(char byte, EventList& events);
  void attributes(char byte, EventList& events);
  void value(char byte, EventList& events);
  void value_tag(char byte, EventList& events);

  void begin_call(EventList& events);
  void end_call(EventList& events);
  void begin_parameter(EventList& events);
  void begin_value(EventList& events);
  void value_text(std::string_view text, EventList& events);
  void end_value(EventList& events);
  void arguments(std::string_view text, EventList& events);
  void to_tag(State state);

  std::string_view dsml_;
  State state_ = State::kBetween;
  std::string collected_;  // the tag, name or attributes so far; bounded
  std::string
      tail_;  // the last bytes between tags, or what of a value may still be a tag: "<" or "</"
  bool in_call_ = false;
  bool has_parameter_ = false;
  bool closes_value_ = false;  // this closing tag ended a value
  bool held_quote_ = false;    // a quote in a key: its end, or a part of it
  bool is_string_ = false;
  JsonArgument json_;
  int calls_ = 0;
  int calls_at_entry_ = 0;
  int completed_ = 0;
};

}  // namespace shoal
