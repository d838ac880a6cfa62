// One run at a time; a line that is not empty behind it goes to the executor again, so that shards
// that share one take turns.
#include "transport/experts/expert_shard.h"

#include <optional>
#include <utility>

namespace shoal::transport {
namespace {

Bytes held_by(const ExpertBatch& batch) {
  return batch.size() + batch.outputs_size();
}

}  // namespace

ExpertShard::ExpertShard(Scheduler executor,
                         ExpertWork work,
                         const ExpertLimits& limits,
                         std::weak_ptr<ShardEvents> events)
    : executor_(std::move(executor)),
      work_(std::move(work)),
      limits_(limits),
      events_(std::move(events)) {}

void ExpertShard::add(const BatchOwner& owner, ExpertBatch batch) {
  std::optional<Error> refused;
  bool starts = false;
  {
    const std::lock_guard lock(mutex_);
    const Bytes size = held_by(batch);
    if (ended_) {
      refused = Error{Code::kPeerLost, "the expert shard has ended"};
    } else if (static_cast<std::int64_t>(line_.size()) >= limits_.batches ||
               bytes_ + size > limits_.waiting) {
      refused = Error{Code::kNoCapacity,
                      "the expert shard has its ceiling of batches or bytes waiting: give it more"};
    } else {
      line_.push_back({owner, std::move(batch)});
      bytes_ = bytes_ + size;
      starts = !std::exchange(started_, true);
    }
  }
  if (refused) {
    answer(owner, tl::unexpected(*std::move(refused)));
  } else if (starts) {
    start();
  }
}

void ExpertShard::start() {
  executor_.defer(Nanos(0), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->run();
    }
  });
}

void ExpertShard::run() {
  const auto events = events_.lock();
  if (events == nullptr) {
    return;
  }
  std::vector<Waiting> batches = take_wanted(*events);
  if (!batches.empty()) {
    events->runs();
    work_on(batches);
  }
  bool goes_on = false;
  {
    const std::lock_guard lock(mutex_);
    runs_.clear();
    goes_on = !line_.empty();
    started_ = goes_on;
  }
  if (goes_on) {
    start();
  }
}

std::vector<ExpertShard::Waiting> ExpertShard::take_wanted(ShardEvents& events) {
  std::deque<Waiting> line;
  {
    const std::lock_guard lock(mutex_);
    line.swap(line_);
    bytes_ = Bytes{0};
    for (const Waiting& waiting : line) {
      runs_.push_back(waiting.owner);
    }
  }
  std::vector<Waiting> wanted;
  for (Waiting& waiting : line) {
    if (events.wants(waiting.owner)) {
      waiting.outputs = make_outputs(waiting.owner, waiting.batch);
      wanted.push_back(std::move(waiting));
    }
  }
  return wanted;
}

void ExpertShard::work_on(std::vector<Waiting>& batches) const {
  std::vector<ExpertCall> calls;
  for (const Waiting& waiting : batches) {
    calls.push_back({.batch = &waiting.batch, .outputs = rows_of(*waiting.outputs)});
  }
  work_(calls);
  {
    const std::lock_guard lock(mutex_);
    if (ended_) {
      return;
    }
  }
  for (std::size_t i = 0; i < batches.size(); ++i) {
    answer(batches[i].owner,
           calls[i].outcome.map([&] { return outputs_of(std::move(batches[i].outputs)); }));
  }
}

void ExpertShard::end() {
  std::vector<BatchOwner> lost;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    lost = std::exchange(runs_, {});
    for (const Waiting& waiting : line_) {
      lost.push_back(waiting.owner);
    }
    line_.clear();
    bytes_ = Bytes{0};
  }
  for (const BatchOwner& owner : lost) {
    answer(owner, fail(Code::kPeerLost, "the expert shard ended with the rows"));
  }
}

std::int64_t ExpertShard::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(line_.size());
}

void ExpertShard::answer(const BatchOwner& owner, Result<ExpertOutputs> outputs) const {
  if (const auto events = events_.lock()) {
    events->answer(owner, std::move(outputs));
  }
}

}  // namespace shoal::transport
