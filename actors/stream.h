// The truth about one answer: what the client has, which attempt is valid, and when another attempt
// is needed.
//
// Pure: values and instants in, what to do out. One owner (an HTTP shard or a simulated client)
// calls it from one thread and acts on every StreamStep. Only a stream raises its attempt; each
// later attempt carries the tokens already sent as forced tokens.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "actors/front_door.h"
#include "schemas/basis.h"
#include "schemas/ids.h"
#include "schemas/result.h"
#include "schemas/units.h"

namespace shoal {

struct StreamLimits {
  std::uint32_t attempts = 5;            // most in a row that get nowhere, the first one included
  std::int64_t held_tokens = 64;         // most tokens kept that arrived ahead of the position
  Nanos hold = std::chrono::seconds(1);  // longest wait for the tokens missing before them
  // Longest silence between two batches, and before the first one: queueing is legal there.
  Nanos progress = std::chrono::minutes(5);
  Nanos first_token = std::chrono::minutes(10);
  // Before the third attempt, doubled before each later one: what failed twice at once needs time,
  // for example to hear of a new life of a node.
  Nanos retry_pause = std::chrono::milliseconds(50);
  Nanos retry_pause_max = std::chrono::seconds(1);
  // The router answers at the deadline, the stream itself this much later.
  Nanos deadline_grace = std::chrono::seconds(1);
};

// Frees the work of `attempt` at whoever still runs it: FrontDoor::stop(request, attempt, end).
struct StreamStop {
  AttemptId attempt;
  Position end = 0;
};

// What the owner does after one event, in this order: send, stop, submit; then, when done() is
// true, close the answer.
struct StreamStep {
  std::vector<TokenId> tokens;  // new for the client, in order; tokens[i] is at first_position + i
  Position first_position = 0;  // in the whole sequence, prompt included
  std::vector<LogprobEntry> logprobs;  // one per token when asked for
  std::vector<StreamStop> stops;
  std::optional<Submission> submit;  // hand to FrontDoor::submit
  Finish finish = Finish::kNone;     // the answer is complete
  TokenId stop_token = -1;           // which token ended it, when finish is kStop
  std::optional<Error>
      error;  // the answer failed for good: tell the client, and FrontDoor::closed(request)
  std::optional<Nanos> retry_after;  // with kNoCapacity
};

class Stream {
 public:
  // The owner hands `submission` (attempt 0 raised to 1 if unset) to the front door itself: see
  // submission().
  Stream(Submission submission, const StreamLimits& limits, Instant now);

  StreamStep on_tokens(TokenRun run, Instant now);
  StreamStep on_failure(const StreamFailure& failure, Instant now);
  // Call at next_due() or a little later.
  StreamStep on_time(Instant now);
  // A stop string was found: the answer ends at `end` (tokens at end and later are not part of it).
  StreamStep on_stop_string(Position end);

  // The client left; nothing is sent any more. The owner calls FrontDoor::closed(request).
  void on_client_left() { done_ = true; }

  // The current attempt as it is to be submitted: forced tokens and basis filled in.
  Submission submission() const;
  Instant next_due() const;

  bool done() const { return done_; }

  RequestId request() const { return base_.request; }

  AttemptId attempt() const { return base_.attempt; }

  // Next position to be sent to the client, prompt included.
  Position position() const { return prompt_tokens() + static_cast<Position>(sent_.size()); }

  Position prompt_tokens() const { return static_cast<Position>(base_.prompt->size()); }

  const std::vector<TokenId>& sent() const { return sent_; }

  const std::optional<Basis>& basis() const { return base_.basis; }

  std::int64_t cached_tokens() const { return cached_tokens_; }

 private:
  bool take(TokenRun& run, StreamStep& step);
  void take_held(StreamStep& step, Instant now);
  void hold(TokenRun run, StreamStep& step, Instant now);
  void raise_attempt(StreamStep& step, Error cause, Instant now);
  Nanos retry_pause() const;
  void fail_for_good(StreamStep& step, Error error);

  Submission base_;  // without forced tokens: those are sent_
  StreamLimits limits_;
  std::vector<TokenId> sent_;
  std::map<Position, TokenRun> held_;  // by first position
  std::int64_t held_tokens_ = 0;
  std::optional<Instant> held_since_;
  Instant last_progress_;
  std::optional<Instant> resubmit_at_;  // a raised attempt that waits, see retry_pause
  std::int64_t cached_tokens_ = 0;
  std::uint32_t tries_ = 1;      // attempts in a row that got nowhere, the current one included
  std::size_t sent_before_ = 0;  // tokens, when the current attempt began
  bool started_ = false;         // a batch of the current attempt came
  bool done_ = false;
};

}  // namespace shoal
