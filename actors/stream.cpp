// The truth about one answer: takes tokens in order, drops what is old or doubled, and decides when
// to try again.
#include "actors/stream.h"

#include <algorithm>
#include <utility>

#include "schemas/check.h"

namespace shoal {
namespace {

// Tokens by which an attempt got somewhere: with one at a time, the prompt run again for each, an
// answer could go on for as long as nobody decodes.
constexpr std::size_t kProgress = 16;

void drop_front(TokenRun& run, std::int64_t count) {
  run.tokens.erase(run.tokens.begin(), run.tokens.begin() + count);
  if (!run.logprobs.empty()) {
    run.logprobs.erase(run.logprobs.begin(), run.logprobs.begin() + count);
  }
  run.first_position += count;
}

}  // namespace

Stream::Stream(Submission submission, const StreamLimits& limits, Instant now)
    : base_(std::move(submission)),
      limits_(limits),
      last_progress_(now) {
  CHECK(base_.prompt != nullptr);
  base_.attempt = std::max(base_.attempt, AttemptId{1});
  tries_ = base_.attempt.value;
  sent_ = std::exchange(base_.forced, {});
  sent_before_ = sent_.size();
}

Submission Stream::submission() const {
  Submission submission = base_;
  submission.forced = sent_;
  return submission;
}

StreamStep Stream::on_tokens(TokenRun run, Instant now) {
  StreamStep step;
  step.first_position = position();
  if (done_ || run.attempt != base_.attempt) {
    step.stops.push_back({run.attempt, position()});
    return step;
  }
  CHECK(run.logprobs.empty() || run.logprobs.size() == run.tokens.size());
  started_ = true;
  last_progress_ = now;
  if (run.basis && !base_.basis) {
    base_.basis = run.basis;
    cached_tokens_ = run.cached_tokens;
  }
  if (run.first_position > position()) {
    hold(std::move(run), step, now);
  } else if (take(run, step)) {
    take_held(step, now);
  } else {
    raise_attempt(
        step, Error{Code::kCorrupt, "an attempt went on from other tokens than were sent"}, now);
  }
  return step;
}

// False: the run's overlap differs from what the client has, so nothing of it can be used.
bool Stream::take(TokenRun& run, StreamStep& step) {
  const auto end = run.first_position + static_cast<Position>(run.tokens.size());
  const auto overlap = std::min(position(), end) - run.first_position;
  const auto known =
      run.first_position - prompt_tokens();  // index in sent_ of the run's first token
  if (known < 0 ||
      !std::equal(run.tokens.begin(), run.tokens.begin() + overlap, sent_.begin() + known)) {
    return false;
  }
  drop_front(run, overlap);
  sent_.insert(sent_.end(), run.tokens.begin(), run.tokens.end());
  step.tokens.insert(step.tokens.end(), run.tokens.begin(), run.tokens.end());
  std::move(run.logprobs.begin(), run.logprobs.end(), std::back_inserter(step.logprobs));
  // An end that lies before the position is a repeated batch of a shorter past: the position knows
  // better.
  if (run.finish != Finish::kNone && end == position()) {
    step.finish = run.finish;
    step.stop_token = run.stop_token;
    done_ = true;
  }
  return true;
}

void Stream::take_held(StreamStep& step, Instant now) {
  while (!done_ && !held_.empty() && held_.begin()->first <= position()) {
    TokenRun run = std::move(held_.extract(held_.begin()).mapped());
    held_tokens_ -= static_cast<std::int64_t>(run.tokens.size());
    if (!take(run, step)) {
      raise_attempt(step, Error{Code::kCorrupt, "an attempt contradicted its own tokens"}, now);
      return;
    }
    held_since_ = now;
  }
  if (held_.empty()) {
    held_since_.reset();
  }
}

void Stream::hold(TokenRun run, StreamStep& step, Instant now) {
  const auto tokens = static_cast<std::int64_t>(run.tokens.size());
  if (held_tokens_ + tokens > limits_.held_tokens) {
    raise_attempt(step, Error{Code::kPeerLost, "tokens were lost on the way to the stream"}, now);
    return;
  }
  if (held_.try_emplace(run.first_position, std::move(run)).second) {
    held_tokens_ += tokens;
    held_since_ = held_since_.value_or(now);
  }
}

StreamStep Stream::on_failure(const StreamFailure& failure, Instant now) {
  StreamStep step;
  step.first_position = position();
  if (done_ || failure.attempt != base_.attempt) {
    return step;
  }
  if (!failure.retry) {
    step.retry_after = failure.retry_after;
    fail_for_good(step, failure.error);
    return step;
  }
  raise_attempt(step, failure.error, now);
  const Nanos pause = std::max(retry_pause(), failure.retry_after.value_or(Nanos{0}));
  if (step.submit && pause > Nanos{0}) {
    step.submit.reset();
    resubmit_at_ = now + pause;
  }
  return step;
}

// Before the current attempt.
Nanos Stream::retry_pause() const {
  if (tries_ < 3) {
    return Nanos{0};
  }
  const std::uint32_t doublings = std::min(tries_ - 3, 20U);
  return std::min(limits_.retry_pause * (std::int64_t{1} << doublings), limits_.retry_pause_max);
}

StreamStep Stream::on_time(Instant now) {
  StreamStep step;
  step.first_position = position();
  if (done_) {
    return step;
  }
  if (now >= base_.deadline + limits_.deadline_grace) {
    fail_for_good(
        step,
        Error{Code::kDeadline, "the request's deadline passed before its answer was complete"});
  } else if (resubmit_at_ && now >= *resubmit_at_) {
    resubmit_at_.reset();
    last_progress_ = now;
    step.submit = submission();
  } else if (held_since_ && now >= *held_since_ + limits_.hold) {
    raise_attempt(step, Error{Code::kPeerLost, "tokens were lost on the way to the stream"}, now);
  } else if (!resubmit_at_ &&
             now >= last_progress_ + (started_ ? limits_.progress : limits_.first_token)) {
    raise_attempt(step, Error{Code::kUnavailable, "no token came for too long"}, now);
  }
  return step;
}

StreamStep Stream::on_stop_string(Position end) {
  StreamStep step;
  step.first_position = position();
  if (!done_) {
    done_ = true;
    step.finish = Finish::kStop;
    step.stops.push_back({base_.attempt, end});
  }
  return step;
}

Instant Stream::next_due() const {
  Instant due = base_.deadline + limits_.deadline_grace;
  due = std::min(
      due,
      resubmit_at_.value_or(last_progress_ + (started_ ? limits_.progress : limits_.first_token)));
  if (held_since_) {
    due = std::min(due, *held_since_ + limits_.hold);
  }
  return due;
}

// First the attempt is raised, then the position is read: a batch of the old attempt can no longer
// move it.
void Stream::raise_attempt(StreamStep& step, Error cause, Instant now) {
  held_.clear();
  held_tokens_ = 0;
  held_since_.reset();
  resubmit_at_.reset();
  if (sent_.size() - sent_before_ >= kProgress) {
    tries_ = 1;
  }
  if (tries_ >= limits_.attempts) {
    cause.message +=
        "; gave up after " + std::to_string(limits_.attempts) + " attempts, send the request again";
    cause.code = Code::kUnavailable;
    fail_for_good(step, std::move(cause));
    return;
  }
  ++base_.attempt.value;
  ++tries_;
  sent_before_ = sent_.size();
  started_ = false;
  last_progress_ = now;
  step.submit = submission();
}

void Stream::fail_for_good(StreamStep& step, Error error) {
  done_ = true;
  step.error = std::move(error);
}

}  // namespace shoal
