// The line of one shard: what waits for it is run together as soon as it is free. Nothing is waited
// for so that a batch becomes larger.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/expert_exchange.h"

namespace shoal::transport {

// Whose batch it is.
struct BatchOwner {
  NodeId source;
  std::uint64_t dispatch = 0;
  std::uint32_t part = 0;
};

// What a shard tells. Any thread, without a lock of the shard's.
class ShardEvents {
 public:
  virtual ~ShardEvents() = default;
  // False: nobody waits for it any more.
  virtual bool wants(const BatchOwner& owner) = 0;
  // Once, but for a batch that runs when its shard ends: that one is lost then.
  virtual void answer(const BatchOwner& owner, Result<ExpertOutputs> outputs) = 0;
  virtual void runs() = 0;
};

// Any thread.
class ExpertShard : public std::enable_shared_from_this<ExpertShard> {
 public:
  ExpertShard(Scheduler executor,
              ExpertWork work,
              const ExpertLimits& limits,
              std::weak_ptr<ShardEvents> events);

  void add(const BatchOwner& owner, ExpertBatch batch);
  // kPeerLost for all that waits or runs.
  void end();
  std::int64_t waiting() const;

 private:
  struct Waiting {
    BatchOwner owner;
    ExpertBatch batch;
    std::shared_ptr<std::vector<std::byte>> outputs{};
  };

  void start();
  void run();
  void work_on(std::vector<Waiting>& batches) const;
  std::vector<Waiting> take_wanted(ShardEvents& events);
  void answer(const BatchOwner& owner, Result<ExpertOutputs> outputs) const;

  const Scheduler executor_;
  const ExpertWork work_;
  const ExpertLimits limits_;
  const std::weak_ptr<ShardEvents> events_;
  mutable std::mutex mutex_;
  std::deque<Waiting> line_;
  Bytes bytes_{0};                // of the line
  std::vector<BatchOwner> runs_;  // of what `work_` has now
  bool started_ = false;          // run() is due or runs
  bool ended_ = false;
};

// Memory for the outputs of a batch, behind the header of their answer.
std::shared_ptr<std::vector<std::byte>> make_outputs(const BatchOwner& owner,
                                                     const ExpertBatch& batch);
std::byte* rows_of(std::vector<std::byte>& outputs);
ExpertOutputs outputs_of(Buffer answer);
// As a message to the source: the bytes of make_outputs(), or an error.
Buffer make_answer(const BatchOwner& owner, const Result<ExpertOutputs>& outputs);

struct ReadAnswer {
  std::uint64_t dispatch = 0;
  std::uint32_t part = 0;
  Result<ExpertOutputs> outputs;  // unchecked in length
  Bytes length{0};                // of the outputs
};

// kCorrupt: it is none.
Result<ReadAnswer> read_answer(Buffer message);

}  // namespace shoal::transport
