// What the stream decoder says about an answer while it grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shoal {

enum class EndReason : std::uint8_t { kStop, kLength, kToolCalls, kContentFilter, kAborted };

struct StreamEvent {
  enum class Kind : std::uint8_t {
    kReasoning,      // text
    kContent,        // text
    kCallBegin,      // call, text = the whole name
    kCallArguments,  // call, text = a fragment of the arguments' JSON
    kEnd,            // the last event: reason and counts
  };

  Kind kind = Kind::kContent;
  std::string text;
  int call = -1;
  std::vector<std::uint32_t> tokens;  // kReasoning, kContent: which tokens of the answer (from 0)
                                      // carried it; only when tracked

  EndReason reason = EndReason::kStop;
  int stop_string = -1;                 // which stop string ended it; -1: none did
  std::uint32_t completion_tokens = 0;  // up to and with the one that ended the answer
  std::uint32_t reasoning_tokens = 0;   // those of them that carried reasoning
};

// Joins what leaves together: one event a kind and push, whatever the machine emits byte by byte.
class EventList {
 public:
  explicit EventList(std::vector<StreamEvent>& events) : events_(events) {}

  void text(StreamEvent::Kind kind, std::string_view text, int call = -1) {
    if (text.empty())
      return;
    open(kind, call).text += text;
    if (call < 0 && first_shown_ < 0)
      first_shown_ = std::ssize(events_) - 1;
  }

  // The first event of this list's life that shows text of the answer; null if none does. Valid
  // until more events come.
  StreamEvent* first_shown() {
    return first_shown_ < 0 ? nullptr : &events_[static_cast<std::size_t>(first_shown_)];
  }

  void call_begin(int call, std::string_view name) {
    StreamEvent event;
    event.kind = StreamEvent::Kind::kCallBegin;
    event.call = call;
    event.text = name;
    events_.push_back(std::move(event));
  }

 private:
  StreamEvent& open(StreamEvent::Kind kind, int call) {
    if (events_.empty() || events_.back().kind != kind || events_.back().call != call) {
      events_.emplace_back();
      events_.back().kind = kind;
      events_.back().call = call;
    }
    return events_.back();
  }

  std::vector<StreamEvent>& events_;
  std::ptrdiff_t first_shown_ = -1;
};

}  // namespace shoal
