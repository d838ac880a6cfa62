// Bytes to whole characters, ids to marks, and the counting; the grammar is answer_machine's.
#include "actors/codec/stream_decoder.h"

#include <algorithm>
#include <utility>

namespace shoal {
namespace {

// The longest end of `text` that is a proper beginning of one of the spellings.
std::size_t spelling_begun(std::string_view text,
                           const std::vector<SpelledMark>& spellings,
                           bool closers_matter) {
  std::size_t longest = 0;
  for (const SpelledMark& mark : spellings) {
    if (mark.is_closer && !closers_matter)
      continue;
    for (std::size_t length = std::min(text.size(), mark.spelling.size() - 1); length > longest;
         --length) {
      if (text.ends_with(std::string_view(mark.spelling).substr(0, length)))
        longest = length;
    }
  }
  return longest;
}

// The DSML token is structure only behind "<" or "</"; alone it is text, so only those are waited
// for.
std::vector<SpelledMark> spelled_marks(const ModelProfile& profile, const DecoderSetup& setup) {
  if (!setup.markup)
    return {};
  std::vector<SpelledMark> marks = {{profile.think_close.spelling, 0, Mark::kThinkClose, false}};
  if (!setup.tools)
    return marks;
  std::string open_dsml = "<";
  std::string close_dsml = "</";
  open_dsml += profile.dsml.spelling;
  close_dsml += profile.dsml.spelling;
  marks.push_back({open_dsml, 1, Mark::kDsml, false});
  marks.push_back({close_dsml, 2, Mark::kDsml, true});
  return marks;
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer,
                             const ModelProfile& profile,
                             DecoderSetup setup)
    : tokenizer_(tokenizer),
      profile_(profile),
      setup_(std::move(setup)),
      machine_(setup_, {profile.think_close.spelling, profile.dsml.spelling}),
      spelled_(spelled_marks(profile, setup_)) {}

Result<void> StreamDecoder::push(TokenId id, std::vector<StreamEvent>& events) {
  if (has_ended_)
    return {};
  if (id < 0 || id >= tokenizer_.vocabulary_size()) {
    return fail(Code::kInternal,
                "the engine produced token " + std::to_string(id) + ", outside the vocabulary of " +
                    std::to_string(tokenizer_.vocabulary_size()));
  }
  EventList list(events);
  take_spelled(list, true);
  if (setup_.track_tokens)
    unclaimed_tokens_.push_back(completion_tokens_);
  ++completion_tokens_;
  take_id(id, list);
  end_push(list, events);
  return {};
}

Result<void> StreamDecoder::push(const std::vector<TokenId>& ids,
                                 std::vector<StreamEvent>& events) {
  for (const TokenId id : ids) {
    TRY_VOID(push(id, events));
  }
  return {};
}

bool StreamDecoder::ends_turn(TokenId id) const {
  if (!setup_.markup)
    return id == profile_.eos.id;
  return std::find(profile_.turn_ends.begin(), profile_.turn_ends.end(), id) !=
         profile_.turn_ends.end();
}

void StreamDecoder::take_id(TokenId id, EventList& events) {
  if (ends_turn(id)) {
    turn_ended_ = !setup_.keep_eos;
    return;
  }
  if (id == profile_.think_close.id)
    return take_mark(Mark::kThinkClose, events);
  if (id == profile_.dsml.id)
    return take_mark(Mark::kDsml, events);
  if (machine_.in_reasoning())
    ++reasoning_tokens_;
  carry_.push(tokenizer_.bytes(id), chars_);
  take_chars(events);
}

void StreamDecoder::take_mark(Mark mark, EventList& events) {
  // A character that a control token cuts in two stays broken.
  carry_.flush(chars_);
  take_chars(events);
  machine_.mark(mark, events);
  unclaimed_tokens_.clear();
}

void StreamDecoder::take_chars(EventList& events) {
  machine_.text(chars_, events);
  chars_.clear();
}

void StreamDecoder::push_text(std::string_view text,
                              std::uint32_t tokens,
                              std::vector<StreamEvent>& events) {
  if (has_ended_)
    return;
  EventList list(events);
  completion_tokens_ += tokens;
  if (machine_.in_reasoning())
    reasoning_tokens_ += tokens;
  carry_.push(text, chars_);
  take_spelled(list, false);
  end_push(list, events);
}

// Gives the machine the text in chars_, spelled-out delimiters as marks. What may still become one
// stays, unless at_end.
void StreamDecoder::take_spelled(EventList& events, bool at_end) {
  std::string_view rest = chars_;
  while (true) {
    std::size_t at = rest.npos;
    const SpelledMark* first = nullptr;
    for (const SpelledMark& mark : spelled_) {
      const std::size_t found = rest.find(mark.spelling);
      if (found >= at)
        continue;
      at = found;
      first = &mark;
    }
    if (first == nullptr)
      break;
    machine_.text(rest.substr(0, at + first->text_bytes), events);
    machine_.mark(first->mark, events);
    rest.remove_prefix(at + first->spelling.size());
  }
  // What stands before decides whether a closer could follow, so it goes first.
  const std::size_t most = at_end ? 0 : spelling_begun(rest, spelled_, true);
  machine_.text(rest.substr(0, rest.size() - most), events);
  rest.remove_prefix(rest.size() - most);
  const std::size_t kept = at_end ? 0 : spelling_begun(rest, spelled_, machine_.closers_matter());
  machine_.text(rest.substr(0, most - kept), events);
  chars_ = std::string(rest.substr(most - kept));
}

void StreamDecoder::count_hidden_token() {
  if (!has_ended_)
    ++completion_tokens_;
}

void StreamDecoder::end_push(EventList& list, std::vector<StreamEvent>& events) {
  if (turn_ended_)
    return finish(EndReason::kStop, events);
  machine_.flush(list);
  claim_tokens(list);
  if (machine_.is_stopped())
    end(EndReason::kStop, events);
}

void StreamDecoder::finish(EndReason reason, std::vector<StreamEvent>& events) {
  if (has_ended_)
    return;
  EventList list(events);
  carry_.drop();  // half a character at the end is nobody's text
  take_spelled(list, true);
  if (!machine_.is_stopped())
    machine_.finish(list);
  claim_tokens(list);
  end(machine_.is_stopped() ? EndReason::kStop : reason, events);
}

// Tokens whose text was held belong to the first event that shows text after them.
void StreamDecoder::claim_tokens(EventList& list) {
  if (StreamEvent* event = list.first_shown()) {
    event->tokens.insert(event->tokens.end(), unclaimed_tokens_.begin(), unclaimed_tokens_.end());
    unclaimed_tokens_.clear();
  }
  if (machine_.in_calls())
    unclaimed_tokens_.clear();
}

void StreamDecoder::end(EndReason reason, std::vector<StreamEvent>& events) {
  has_ended_ = true;
  StreamEvent event;
  event.kind = StreamEvent::Kind::kEnd;
  event.reason =
      reason == EndReason::kStop && machine_.has_completed_call() ? EndReason::kToolCalls : reason;
  if (const auto stop = machine_.stop_string())
    event.stop_string = static_cast<int>(*stop);
  event.completion_tokens = completion_tokens_;
  event.reasoning_tokens = reasoning_tokens_;
  events.push_back(std::move(event));
}

}  // namespace shoal
