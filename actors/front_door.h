// What the HTTP shards and the actors say to each other: plain C++, no CAF, no sockets, so either
// side can be tested alone.
//
// A shard is one I/O thread with its own streams. It submits requests through FrontDoor (any
// thread) and gets their tokens back through its ShardInbox: one call per engine step with all its
// streams' tokens, never one per token.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/timeline.h"
#include "schemas/basis.h"
#include "schemas/ids.h"
#include "schemas/kv_record.h"
#include "schemas/result.h"
#include "schemas/sampling.h"
#include "schemas/units.h"

namespace shoal {

using TokenBuffer = std::shared_ptr<const std::vector<TokenId>>;

// One answer of one request (n > 1: one per choice). Everything a worker needs; the text never
// leaves the shard.
struct Submission {
  RequestId request;  // unique per choice and process
  AttemptId attempt;
  NodeId gateway{};  // set by the front door: whose shard waits for the tokens
  std::uint32_t shard = 0;
  std::uint32_t choice = 0;  // index of the answer within its HTTP request
  TokenBuffer prompt;
  std::vector<TokenId> forced;  // tokens of the answer the client already has (a later attempt)
  Sampling sampling;            // has_seed is true: a missing seed is drawn once by the shard
  BasisMode mode = BasisMode::kBounded;
  std::optional<Basis> basis;  // known after the first placement; kept by every later attempt
  Instant deadline;
  std::string tenant;
  TtlClass ttl = TtlClass::kChat;  // how long its KV is worth keeping
};

struct LogprobEntry {
  TokenId token = 0;
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top;
};

enum class Finish : std::uint8_t { kNone, kStop, kLength };

// New tokens of one stream, in order. first_position counts in the whole sequence (prompt
// included). Without tokens it says that the answer ends there, to a stream that has not seen it
// end.
struct TokenRun {
  RequestId request;
  AttemptId attempt;
  Position first_position = 0;
  std::vector<TokenId>
      tokens;  // a stop token (EOS, stop_token_ids) that ended the answer is the last one
  std::vector<LogprobEntry> logprobs;  // one per token when asked for
  std::optional<Basis> basis;          // with the first batch of an attempt
  std::int64_t cached_tokens = 0;      // prompt tokens that were not computed (with the basis)
  Finish finish = Finish::kNone;       // with the last batch
  TokenId stop_token = -1;             // which token ended it, when finish is kStop
};

// The terminal event of an attempt that did not finish. `retry` asks the stream to raise its
// attempt and submit again.
struct StreamFailure {
  RequestId request;
  AttemptId attempt;
  Error error;
  bool retry = false;
  std::optional<Nanos> retry_after;  // with kNoCapacity: when to come back
};

class ShardInbox {
 public:
  virtual ~ShardInbox() = default;
  virtual void deliver(std::vector<TokenRun> runs) = 0;  // any thread; must not block
  virtual void fail(StreamFailure failure) = 0;          // any thread; must not block
};

// Health of the node as the supervisor sees it: from progress, not from being alive.
enum class PartState : std::uint8_t {
  kStarting,
  kOk,
  kBusy,
  kDegraded,
  kDead,
  kDraining,  // ends when its work is over, and takes nothing new
  kLeft,      // another node, which was told to end, and did
};

struct PartHealth {
  std::string name;
  PartState state = PartState::kStarting;
  std::string cause;
  Nanos since_progress{0};
};

struct NodeHealth {
  PartState state = PartState::kStarting;
  std::vector<PartHealth> parts;
};

class FrontDoor {
 public:
  virtual ~FrontDoor() = default;

  // Shards register once, before any submission, and stay valid until the node has stopped.
  virtual void attach(std::uint32_t shard, ShardInbox& inbox) = 0;

  // Ids of a shard's requests count up from here: never those of another shard, node or process.
  virtual RequestId first_request(std::uint32_t shard) const {
    return RequestId{(std::uint64_t{shard} << 32) + 1};
  }

  virtual void submit(Submission submission) = 0;  // answered by deliver or fail, by its deadline
  virtual void stop(RequestId request,
                    AttemptId attempt,
                    Position end) = 0;         // the stream is complete at `end` (stop string)
  virtual void closed(RequestId request) = 0;  // the client left: free everything within one step
  virtual NodeHealth health() const = 0;       // a snapshot, any thread

  // What happened to a request so far, as its routers told; any thread. None: it never got to one,
  // or is too old.
  virtual std::optional<RequestTimeline> explain(RequestId request) const = 0;
};

}  // namespace shoal
