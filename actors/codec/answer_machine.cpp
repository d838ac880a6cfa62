// The rules of each state; what the calls themselves look like is call_machine's.
#include "actors/codec/answer_machine.h"

#include <algorithm>
#include <array>
#include <utility>

namespace shoal {
namespace {

constexpr std::size_t kTagBytesMax = 64;
constexpr std::string_view kClosingFence = "\n```";
constexpr std::array<std::string_view, 2> kOpeningFences = {"```json\n", "```\n"};
// Wrappers of all generations; the leading space of V4.1 is not looked at.
constexpr std::array<std::string_view, 3> kWrappers = {"calls", "tool_calls", "function_calls"};
constexpr std::string_view kInvoke = "invoke";

std::string_view without_leading_spaces(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == text.npos ? std::string_view() : text.substr(first);
}

bool is_wrapper(std::string_view name) {
  return std::find(kWrappers.begin(), kWrappers.end(), name) != kWrappers.end();
}

// Whether a tag that is cut off here was about to be markup.
bool begins_markup(std::string_view name) {
  return kInvoke.starts_with(name) ||
         std::any_of(kWrappers.begin(), kWrappers.end(), [&](std::string_view wrapper) {
           return wrapper.starts_with(name);
         });
}

}  // namespace

AnswerMachine::AnswerMachine(const DecoderSetup& setup, MarkSpellings spellings)
    : setup_(setup),
      spellings_(std::move(spellings)),
      stops_(setup_.stop),
      calls_(spellings_.dsml) {
  const bool starts_in_reasoning =
      setup_.start == StartState::kReasoning || setup_.start == StartState::kReasoningContinued;
  state_ = starts_in_reasoning ? State::kReasoning : content_state();
  lead_ = setup_.markup && setup_.start != StartState::kReasoningContinued &&
          setup_.start != StartState::kContentContinued;
  // A forced call begins inside the block: a call may follow at once, a closer is markup, and plain
  // text is content.
  opened_block_ = setup_.start == StartState::kInCalls;
}

void AnswerMachine::enter(State state) {
  state_ = state;
  lead_ = false;
  held_.clear();
  stops_.reset();
}

void AnswerMachine::text(std::string_view text, EventList& events) {
  for (const char c : text) {
    if (stop_)
      return;
    byte(c, events);
  }
}

void AnswerMachine::byte(char byte, EventList& events) {
  switch (state_) {
    case State::kReasoning:
    case State::kContent:
    case State::kJsonBody:
    case State::kDropped:
      return shown_byte(byte, events);
    case State::kJsonProse:
      return json_prose_byte(byte, events);
    case State::kOpener:
      return opener_byte(byte, events);
    case State::kCloser:
      return closer_byte(byte, events);
    case State::kCalls:
      return calls_byte(byte, events);
  }
}

void AnswerMachine::shown_byte(char byte, EventList& events) {
  if (lead_ && byte == '\n')
    return;
  lead_ = false;
  held_ += byte;
  if (shows_content()) {
    if (const auto stop = stops_.step(byte)) {
      let_go(held_.size() - stops_.length(*stop), events);
      held_.clear();
      stop_ = stop;
      return;
    }
  }
  if (state_ == State::kJsonBody && held_.ends_with(kClosingFence)) {
    let_go(held_.size() - kClosingFence.size(), events);
    enter(State::kDropped);
  }
}

void AnswerMachine::json_prose_byte(char byte, EventList& events) {
  held_ += byte;
  if (byte == '{' || byte == '[') {
    enter(State::kJsonBody);
    return shown_byte(byte, events);
  }
  prose_tail_ += byte;
  const bool at_fence =
      std::any_of(kOpeningFences.begin(), kOpeningFences.end(), [&](std::string_view fence) {
        return prose_tail_.ends_with(fence);
      });
  if (prose_tail_.size() > kOpeningFences[0].size())
    prose_tail_.erase(0, 1);
  if (at_fence)
    enter(State::kJsonBody);
}

// How much of held_ may still become, or belong to, a delimiter.
std::size_t AnswerMachine::undecided() const {
  std::size_t start = held_.size();
  if (setup_.tools) {
    if (held_.ends_with('<'))
      start -= 1;
    if (opened_block_ && held_.ends_with("</"))
      start -= 2;
  }
  const bool newlines_matter = setup_.tools || state_ == State::kReasoning;
  const std::size_t oldest = start > kNewlinesHeldMax ? start - kNewlinesHeldMax : 0;
  while (newlines_matter && start > oldest && held_[start - 1] == '\n')
    --start;
  std::size_t count = std::max(held_.size() - start, shows_content() ? stops_.partial() : 0);
  for (std::size_t length = kClosingFence.size() - 1; state_ == State::kJsonBody && length > count;
       --length) {
    if (held_.ends_with(kClosingFence.substr(0, length)))
      count = length;
  }
  return count;
}

void AnswerMachine::let_go(std::size_t bytes, EventList& events) {
  const std::string_view text = std::string_view(held_).substr(0, bytes);
  if (state_ == State::kReasoning)
    events.text(StreamEvent::Kind::kReasoning, text);
  if (shows_content())
    events.text(StreamEvent::Kind::kContent, text);
  held_.erase(0, bytes);
}

void AnswerMachine::flush(EventList& events) {
  if (shows_text() && !stop_)
    let_go(held_.size() - undecided(), events);
}

void AnswerMachine::finish(EventList& events) {
  if (state_ == State::kCalls)
    return calls_.cut_off(events);
  // A block that never got beyond its opening is not shown; neither is a closer that began.
  if (state_ == State::kOpener && opener_ == Opener::kTag &&
      begins_markup(without_leading_spaces(std::string_view(pending_).substr(tag_start_)))) {
    return;
  }
  if (state_ == State::kCloser)
    return;
  if (state_ == State::kOpener)
    revert(events);
  let_go(held_.size(), events);
}

void AnswerMachine::mark(Mark mark, EventList& events) {
  if (stop_)
    return;
  if (!setup_.markup)
    return text(mark == Mark::kDsml ? spellings_.dsml : spellings_.think_close, events);
  if (mark == Mark::kDsml)
    return dsml(events);
  think_close(events);
}

void AnswerMachine::think_close(EventList& events) {
  if (state_ == State::kCalls)
    return text(spellings_.think_close, events);
  if (state_ == State::kOpener || state_ == State::kCloser)
    revert(events);
  if (state_ == State::kReasoning) {
    take_newlines(held_.size());
    let_go(held_.size(), events);
    enter(content_state());
    lead_ = true;
    return;
  }
  // One too many: dropped, and what stands before and behind it does not join to a delimiter.
  let_go(held_.size(), events);
  lead_ = false;
  stops_.reset();
}

// Removes the newlines before `end` from held_, and everything behind it; returns the newlines.
std::string AnswerMachine::take_newlines(std::size_t end) {
  std::size_t start = end;
  const std::size_t oldest = end > kNewlinesHeldMax ? end - kNewlinesHeldMax : 0;
  while (start > oldest && held_[start - 1] == '\n')
    --start;
  std::string newlines = held_.substr(start, end - start);
  held_.resize(start);
  return newlines;
}

void AnswerMachine::dsml(EventList& events) {
  if (state_ == State::kCalls) {
    calls_.dsml(events);
    if (calls_.is_closed())
      leave_calls();
    return;
  }
  if (state_ == State::kOpener && opener_ == Opener::kGap && pending_.ends_with('<')) {
    pending_ += spellings_.dsml;
    tag_start_ = pending_.size();
    opener_ = Opener::kCall;
    return;
  }
  if (state_ == State::kOpener || state_ == State::kCloser)
    revert(events);
  if (setup_.tools && held_.ends_with('<'))
    return decide_later(State::kOpener, "<", events);
  if (setup_.tools && opened_block_ && held_.ends_with("</"))
    return decide_later(State::kCloser, "</", events);
  text(spellings_.dsml, events);
}

void AnswerMachine::decide_later(State state, std::string_view opener, EventList& events) {
  const std::string newlines = take_newlines(held_.size() - opener.size());
  let_go(held_.size(), events);
  pending_ = newlines;
  pending_ += opener;
  pending_ += spellings_.dsml;
  tag_start_ = pending_.size();
  opener_ = Opener::kTag;
  origin_ = state_;
  enter(state);
}

// It was text: goes through the state it came from, the token by its spelling.
void AnswerMachine::revert(EventList& events) {
  const std::string text_again = std::exchange(pending_, {});
  enter(origin_);
  text(text_again, events);
}

void AnswerMachine::opener_byte(char byte, EventList& events) {
  const std::string tag(without_leading_spaces(std::string_view(pending_).substr(tag_start_)));
  const bool after_bracket = pending_.ends_with('<');
  pending_ += byte;
  bool may_be_markup = pending_.size() - tag_start_ <= kTagBytesMax;
  switch (opener_) {
    case Opener::kTag:
    case Opener::kCall:
      if (byte == ' ' && tag == kInvoke)
        return enter_calls(true);
      if (opener_ == Opener::kCall) {
        may_be_markup = kInvoke.starts_with(without_leading_spaces(tag + byte));
      } else if (byte == '>' && is_wrapper(tag)) {
        return enter_calls(false);
      } else if (byte == '>' && !tag.empty()) {
        opener_ = Opener::kGap;
      } else if (byte == '>' || byte == '<' || byte == '\n') {
        may_be_markup = false;
      }
      break;
    case Opener::kGap:
      may_be_markup &= !after_bracket && (byte == ' ' || byte == '\n' || byte == '<');
      break;
  }
  if (!may_be_markup)
    revert(events);
}

void AnswerMachine::enter_calls(bool at_invoke) {
  opened_block_ = true;
  enter(State::kCalls);
  if (at_invoke) {
    calls_.enter_invoke();
  } else {
    calls_.enter_block();
  }
}

void AnswerMachine::closer_byte(char byte, EventList& events) {
  pending_ += byte;
  if (byte == '>') {
    pending_.clear();
    enter(origin_);
    return;
  }
  if (byte == '\n' || byte == '<' || pending_.size() - tag_start_ > kTagBytesMax)
    revert(events);
}

void AnswerMachine::calls_byte(char byte, EventList& events) {
  calls_.byte(byte, events);
  if (calls_.is_closed())
    leave_calls();
}

// An empty block counts as never written; behind a real one only another block is of interest.
void AnswerMachine::leave_calls() {
  if (calls_.has_calls()) {
    enter(State::kDropped);
    return;
  }
  enter(origin_);
  lead_ = true;
}

}  // namespace shoal
