// One layer's rows of a step on their way to the owners of experts and back: dispatch and combine.
// Lossless: codes and scales travel as an expert's first linear would make them itself, with the
// routing weight as fp32; one bf16 row per pair of row and expert comes back. The source sums.
//
// Threads: every call from any thread. `Combined` is called exactly once, by its deadline at the
// latest, from whichever thread ends the dispatch (the caller's when it is refused); it must not
// block. stop() returns after the last callback. Errors: kPeerLost (the shard is gone or holds no
// such experts, or the placement is not in force any more), kDeadline, kCorrupt, kNoCapacity (a
// ceiling), kUnavailable (stopped). A dispatch fails as a whole, and with its first part.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "schemas/ids.h"
#include "schemas/result.h"
#include "schemas/units.h"
#include "transport/scheduler.h"
#include "transport/transport.h"

namespace shoal::transport {

struct ExpertBatchShape {
  std::uint32_t shard = 0;  // number of the shard at its node
  EpochId epoch;            // of the placement that the slots are of
  int layer = 0;            // backbone layers first, then the DSpark stages
  std::int64_t dim = 0;     // a multiple of 32
  std::int64_t rows = 0;
  std::int64_t pairs = 0;  // of a row and an expert: as many rows come back
};

// What one shard runs of one layer of one step, as the bytes of one message. Copies share them.
class ExpertBatch {
 public:
  // To be written by `fill`.
  struct Fields {
    std::int32_t* row = nullptr;     // [pairs] in [0, rows)
    std::int32_t* slot = nullptr;    // [pairs] of the shard: which expert
    float* weight = nullptr;         // [pairs] applied before the expert's last linear
    std::uint8_t* codes = nullptr;   // [rows][dim] E4M3
    std::uint8_t* scales = nullptr;  // [rows][dim/32] UE8M0
  };

  ExpertBatch(const ExpertBatchShape& shape, const std::function<void(const Fields&)>& fill);
  // Of bytes that a peer sent: kCorrupt says what does not fit.
  static Result<ExpertBatch> read(Buffer bytes);

  const ExpertBatchShape& shape() const { return shape_; }

  const std::int32_t* row() const;
  const std::int32_t* slot() const;
  const float* weight() const;
  const std::uint8_t* codes() const;
  const std::uint8_t* scales() const;

  Bytes size() const { return Bytes{static_cast<std::int64_t>(bytes_->size())}; }

  // Of its outputs, [pairs][dim] bf16.
  Bytes outputs_size() const { return Bytes{shape_.pairs * shape_.dim * 2}; }

  // The bytes, with the number of the dispatch and the part of it. Of a batch that was made here
  // and has not been sent.
  Buffer stamped(std::uint64_t dispatch, std::uint32_t part) const;
  std::uint64_t dispatch() const;
  std::uint32_t part() const;

 private:
  ExpertBatch() = default;

  const std::byte* at(std::int64_t offset) const { return bytes_->data() + offset; }

  ExpertBatchShape shape_;
  Buffer bytes_;
  std::shared_ptr<std::vector<std::byte>> own_;  // the same; null: a peer's
};

// What a shard is asked to do with one batch.
struct ExpertCall {
  const ExpertBatch* batch = nullptr;
  std::byte* outputs = nullptr;  // [pairs][dim] bf16, to be written
  Result<void> outcome{};        // an error: nobody reads the outputs
};

// Runs all batches that wait, from whatever callers, together. On the shard's executor.
using ExpertWork = std::function<void(std::span<ExpertCall>)>;

// Rows of one part: [pairs][dim] bf16, 16-byte aligned. Valid while this lives.
struct ExpertOutputs {
  Buffer holder;
  const std::byte* rows = nullptr;
};

struct ExpertLimits {
  std::int64_t dispatches = 64;            // of this source, in flight
  Bytes in_flight{1LL << 30};              // of their batches and of the outputs they wait for
  std::int64_t batches = 256;              // waiting at one shard
  Bytes waiting{1LL << 30};                // likewise, with their outputs
  Nanos answer{std::chrono::seconds(10)};  // how long an answer may take to another node
};

class ExpertExchange {
 public:
  struct Part {
    NodeId node;
    ExpertBatch batch;
  };

  struct Dispatch {
    EpochId epoch;
    Instant deadline;
    std::vector<Part> parts;
  };

  // Outputs of each part, in the order of the parts.
  using Combined = std::function<void(Result<std::vector<ExpertOutputs>>)>;

  virtual ~ExpertExchange() = default;

  // As a source.
  virtual void dispatch(Dispatch dispatch, Combined done) = 0;
  // What is in flight of an older placement fails with kPeerLost, and what comes of one later.
  virtual void abort_before(EpochId epoch) = 0;
  // A node is gone: everything in flight to it fails with kPeerLost at once.
  virtual void lose(NodeId node) = 0;

  // As a node with shards: `work` runs on the executor, one call at a time per shard. What came
  // before is the earlier shard's of that number, and lost with it.
  virtual void serve(std::uint32_t shard, Scheduler executor, ExpertWork work) = 0;
  // All that waits for the shard or runs in it fails with kPeerLost at once. Its work may still run
  // then; nobody gets what comes of it.
  virtual void end(std::uint32_t shard) = 0;

  // As end() of every shard; what is in flight fails with kUnavailable. Idempotent; the destructor
  // calls it. Not from a callback.
  virtual void stop() = 0;

  struct Use {
    std::int64_t dispatches = 0;  // in flight
    Bytes in_flight{0};
    std::int64_t waiting = 0;  // batches at the shards of this node
    // Since the start.
    std::int64_t combined = 0;
    std::int64_t failed = 0;
    std::int64_t hops = 0;  // parts sent, each with its way back
    Bytes sent{0};
    Bytes received{0};
    std::int64_t runs = 0;  // calls of work at this node
  };

  virtual Use use() const = 0;
};

struct ExpertExchangeParts {
  NodeId self;
  Scheduler timers;                // for deadlines; runs until stop() at least, as all executors
  Transport* transport = nullptr;  // outlives it; null: all shards are in this process. Its
                                   // channels kExpertChannels are taken
  ExpertLimits limits{};
};

// Batches to the shards, and what they answer.
inline constexpr std::uint8_t kExpertChannels[] = {1, 2};

}  // namespace shoal::transport
