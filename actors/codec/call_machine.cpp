// One method a state; each looks at one byte.
#include "actors/codec/call_machine.h"

#include <algorithm>
#include <cctype>

#include "actors/codec/json_writer.h"

namespace shoal {
namespace {

// Longest name of a call, tag or list of attributes; what is longer is no markup.
constexpr std::size_t kCollectedMax = 128;
constexpr std::string_view kNameAttribute = "name=\"";

std::string_view without_leading_spaces(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == text.npos ? std::string_view() : text.substr(first);
}

bool is_tag_end(char byte) {
  return byte == ' ' || byte == '>' || byte == '\n';
}

// Whether the attribute string= says so, in any case: the model sometimes writes "True".
bool says(const std::string& attributes, std::string_view wanted) {
  const std::size_t at = attributes.rfind("string=\"");
  if (at == attributes.npos)
    return false;
  const std::string_view value = std::string_view(attributes).substr(at + 8, wanted.size());
  return std::equal(value.begin(), value.end(), wanted.begin(), wanted.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
}

}  // namespace

void CallMachine::enter_block() {
  calls_at_entry_ = calls_;
  tail_.clear();
  state_ = State::kBetween;
}

void CallMachine::enter_invoke() {
  enter_block();
  to_tag(State::kInvoke);
}

void CallMachine::to_tag(State state) {
  state_ = state;
  collected_.clear();
  tail_.clear();
}

void CallMachine::byte(char byte, EventList& events) {
  switch (state_) {
    case State::kBetween:
      return between(byte);
    case State::kOpenTag:
      return open_tag(byte, events);
    case State::kCloseTag:
      return close_tag(byte, events);
    case State::kInvoke:
    case State::kParameter:
      return header(byte, events);
    case State::kName:
      return name(byte, events);
    case State::kKey:
      return key(byte, events);
    case State::kAttributes:
      return attributes(byte, events);
    case State::kValue:
      return value(byte, events);
    case State::kValueTag:
      return value_tag(byte, events);
    case State::kClosed:
      return;
  }
}

void CallMachine::dsml(EventList& events) {
  if (state_ == State::kValueTag) {  // the tag before it was text after all
    value_text("<" + std::string(dsml_) + collected_, events);
    state_ = State::kValue;
  }
  if (state_ == State::kKey) {
    for (const char c : dsml_)
      key(c, events);
    return;
  }
  const bool closes = tail_.ends_with("</");
  const bool opens = tail_.ends_with('<');
  if (state_ == State::kValue) {
    if (!closes && !opens)
      return value_text(dsml_, events);
    closes_value_ = closes;
    if (closes)
      end_value(events);
    return to_tag(closes ? State::kCloseTag : State::kValueTag);
  }
  if (state_ != State::kBetween || (!closes && !opens)) {
    state_ = State::kBetween;
    tail_.clear();
    return;
  }
  closes_value_ = false;
  if (closes && in_call_)
    end_call(events);
  to_tag(closes ? State::kCloseTag : State::kOpenTag);
}

void CallMachine::between(char byte) {
  if (byte == '/' && tail_ == "<") {
    tail_ = "</";
  } else {
    tail_.assign(1, byte);
  }
}

void CallMachine::open_tag(char byte, EventList& events) {
  const std::string_view tag = without_leading_spaces(collected_);
  if (is_tag_end(byte) && !tag.empty()) {
    if (tag == "invoke" && byte == ' ') {
      if (in_call_)
        end_call(events);
      return to_tag(State::kInvoke);
    }
    if (tag == "parameter" && byte == ' ' && in_call_)
      return to_tag(State::kParameter);
    tail_.clear();
    state_ = State::kBetween;
    return;
  }
  collected_ += byte;
  if (byte == '<' || collected_.size() > kCollectedMax) {
    tail_.assign(1, byte);
    state_ = State::kBetween;
  }
}

void CallMachine::close_tag(char byte, EventList& events) {
  if (byte != '>' && byte != '\n' && byte != '<' && collected_.size() < kCollectedMax) {
    collected_ += byte;
    return;
  }
  tail_.assign(1, byte);
  state_ = State::kBetween;
  const std::string_view tag = without_leading_spaces(collected_);
  const bool is_invoke = tag.starts_with("inv");
  const bool is_block = tag.find("call") != tag.npos;
  if (closes_value_ && (is_invoke || is_block))
    end_call(events);
  // Outside of a call anything but a closer of its parts ends the block, however it is spelled.
  if (is_block || (!in_call_ && !is_invoke && !tag.starts_with("par")))
    state_ = State::kClosed;
}

void CallMachine::header(char byte, EventList& events) {
  collected_ += byte;
  if (collected_.ends_with(kNameAttribute)) {
    if (state_ == State::kInvoke)
      return to_tag(State::kName);
    begin_parameter(events);
    return to_tag(State::kKey);
  }
  if (byte == '>' || byte == '<' || collected_.size() > kCollectedMax) {
    tail_.assign(1, byte);
    state_ = State::kBetween;
  }
}

void CallMachine::name(char byte, EventList& events) {
  if (byte == '"')
    return begin_call(events);
  collected_ += byte;
  if (collected_.size() > kCollectedMax) {
    tail_.clear();
    state_ = State::kBetween;
  }
}

void CallMachine::begin_call(EventList& events) {
  events.call_begin(calls_++, collected_);
  in_call_ = true;
  has_parameter_ = false;
  tail_.clear();
  state_ = State::kBetween;
}

void CallMachine::end_call(EventList& events) {
  arguments(has_parameter_ ? "}" : "{}", events);
  in_call_ = false;
  ++completed_;
}

void CallMachine::begin_parameter(EventList& events) {
  arguments(has_parameter_ ? ", \"" : "{\"", events);
  has_parameter_ = true;
  held_quote_ = false;
}

// Keys may hold quotes: the one that is followed by a space or by the tag's end is the last.
void CallMachine::key(char byte, EventList& events) {
  if (held_quote_) {
    held_quote_ = false;
    if (byte == ' ' || byte == '>') {
      arguments("\": ", events);
      to_tag(State::kAttributes);
      return attributes(byte, events);
    }
    arguments("\\\"", events);
  }
  if (byte == '"') {
    held_quote_ = true;
    return;
  }
  std::string escaped;
  append_escaped(escaped, {&byte, 1});
  arguments(escaped, events);
}

void CallMachine::attributes(char byte, EventList& events) {
  if (byte == '>' || collected_.size() >= kCollectedMax)
    return begin_value(events);
  collected_ += byte;
}

void CallMachine::begin_value(EventList& events) {
  is_string_ = says(collected_, "true");
  if (is_string_) {
    arguments("\"", events);
  } else {
    json_.begin(!says(collected_, "false"));
  }
  tail_.clear();
  state_ = State::kValue;
}

void CallMachine::value(char byte, EventList& events) {
  if (byte == '/' && tail_ == "<") {
    tail_ += byte;
    return;
  }
  if (!tail_.empty()) {
    value_text(tail_, events);
    tail_.clear();
  }
  if (byte == '<') {
    tail_ += byte;
  } else {
    value_text({&byte, 1}, events);
  }
}

// "<DSML" inside a value: the closer before a new tag is missing, or the value speaks about the
// token.
void CallMachine::value_tag(char byte, EventList& events) {
  const std::string_view tag = without_leading_spaces(collected_);
  if (byte == ' ' && (tag == "parameter" || tag == "invoke")) {
    const bool is_invoke = tag == "invoke";
    end_value(events);
    if (is_invoke)
      end_call(events);
    return to_tag(is_invoke ? State::kInvoke : State::kParameter);
  }
  collected_ += byte;
  const std::string_view longer = without_leading_spaces(collected_);
  const bool may_become_tag = std::string_view("parameter").starts_with(longer) ||
                              std::string_view("invoke").starts_with(longer);
  if (may_become_tag && collected_.size() < kCollectedMax)
    return;
  collected_.pop_back();
  value_text("<" + std::string(dsml_) + collected_, events);
  state_ = State::kValue;
  value(byte, events);
}

void CallMachine::value_text(std::string_view text, EventList& events) {
  std::string out;
  if (is_string_) {
    append_escaped(out, text);
  } else {
    for (const char c : text)
      json_.push(c, out);
  }
  arguments(out, events);
}

void CallMachine::end_value(EventList& events) {
  std::string out;
  if (is_string_) {
    out = "\"";
  } else {
    json_.close(out);
  }
  arguments(out, events);
}

void CallMachine::cut_off(EventList& events) {
  if (state_ == State::kKey && held_quote_)
    arguments("\"", events);
  if (state_ != State::kValue)
    return;
  value_text(tail_, events);
  if (is_string_)
    return;
  std::string out;
  json_.cut_off(out);
  arguments(out, events);
}

void CallMachine::arguments(std::string_view text, EventList& events) {
  events.text(StreamEvent::Kind::kCallArguments, text, calls_ - 1);
}

}  // namespace shoal
