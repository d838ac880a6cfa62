// Dispatches in flight, shards of this node, and the messages between nodes.
#include "transport/experts/shard_exchange.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "transport/experts/expert_shard.h"

namespace shoal::transport {
namespace {

constexpr std::uint8_t kBatches = kExpertChannels[0];
constexpr std::uint8_t kAnswers = kExpertChannels[1];

class Exchange final : public ShardEvents, public std::enable_shared_from_this<Exchange> {
 public:
  explicit Exchange(ExpertExchangeParts parts) : parts_(std::move(parts)) {}

  void listen();
  void dispatch(ExpertExchange::Dispatch dispatch, ExpertExchange::Combined done);
  void abort_before(EpochId epoch);
  void lose(NodeId node);
  void serve(std::uint32_t shard, Scheduler executor, ExpertWork work);
  void end(std::uint32_t shard);
  void stop();
  ExpertExchange::Use use() const;

  bool wants(const BatchOwner& owner) override;
  void answer(const BatchOwner& owner, Result<ExpertOutputs> outputs) override;
  void runs() override;

 private:
  // A dispatch in flight.
  struct Pending {
    EpochId epoch;
    Instant deadline;
    Bytes held{0};
    std::vector<NodeId> nodes;           // of the parts
    std::vector<Bytes> lengths;          // of their outputs
    std::vector<ExpertOutputs> outputs;  // null until they came
    std::size_t left = 0;
    ExpertExchange::Combined done;
  };

  using Taken = std::optional<Pending>;

  std::optional<Error> refusal(const ExpertExchange::Dispatch& dispatch, Bytes held) const;
  void send(std::uint64_t id, std::uint32_t part, const ExpertExchange::Part& to, Instant deadline);
  void receive(NodeId from, Buffer message);
  void receive_answer(NodeId from, Buffer message);
  void take_answer(std::uint64_t id, std::uint32_t part, Result<ExpertOutputs> outputs);
  Taken take(std::uint64_t id);
  template <class Predicate>
  void fail_where(const Predicate& predicate, const Error& error);
  void call(Pending& pending, Result<std::vector<ExpertOutputs>> result);
  void arm();
  void expire();
  std::shared_ptr<ExpertShard> shard(std::uint32_t number) const;

  const ExpertExchangeParts parts_;
  mutable std::mutex mutex_;
  std::condition_variable called_;
  int calling_ = 0;
  bool stopped_ = false;
  std::uint64_t dispatches_ = 0;
  EpochId floor_;
  std::map<std::uint64_t, Pending> pending_;
  std::optional<Instant> armed_;
  std::map<std::uint32_t, std::shared_ptr<ExpertShard>> shards_;
  ExpertExchange::Use use_;
};

void Exchange::listen() {
  if (parts_.transport == nullptr) {
    return;
  }
  parts_.transport->on_message(kBatches, [weak = weak_from_this()](NodeId from, Buffer message) {
    if (const auto self = weak.lock()) {
      self->receive(from, std::move(message));
    }
  });
  parts_.transport->on_message(kAnswers, [weak = weak_from_this()](NodeId from, Buffer message) {
    if (const auto self = weak.lock()) {
      self->receive_answer(from, std::move(message));
    }
  });
}

// The source.

std::optional<Error> Exchange::refusal(const ExpertExchange::Dispatch& dispatch, Bytes held) const {
  if (stopped_) {
    return Error{Code::kUnavailable, "the exchange of rows with experts has stopped"};
  }
  if (dispatch.epoch < floor_) {
    return Error{Code::kPeerLost, "the placement of the experts is not in force any more"};
  }
  if (static_cast<std::int64_t>(pending_.size()) >= parts_.limits.dispatches ||
      use_.in_flight + held > parts_.limits.in_flight) {
    return Error{Code::kNoCapacity,
                 "the exchange of rows with experts has its ceiling of dispatches or bytes in "
                 "flight: give it more, or plan smaller steps"};
  }
  return std::nullopt;
}

void Exchange::dispatch(ExpertExchange::Dispatch dispatch, ExpertExchange::Combined done) {
  Pending pending{.epoch = dispatch.epoch,
                  .deadline = dispatch.deadline,
                  .held = Bytes{0},
                  .nodes = {},
                  .lengths = {},
                  .outputs = std::vector<ExpertOutputs>(dispatch.parts.size()),
                  .left = dispatch.parts.size(),
                  .done = std::move(done)};
  Bytes sent{0};
  for (const ExpertExchange::Part& part : dispatch.parts) {
    pending.nodes.push_back(part.node);
    pending.lengths.push_back(part.batch.outputs_size());
    sent = sent + part.batch.size();
    pending.held = pending.held + part.batch.size() + part.batch.outputs_size();
  }
  std::optional<Error> refused;
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    refused = refusal(dispatch, pending.held);
    if (!refused && pending.left > 0) {
      id = ++dispatches_;
      use_.in_flight = use_.in_flight + pending.held;
      use_.hops += static_cast<std::int64_t>(pending.left);
      use_.sent = use_.sent + sent;
      pending_.emplace(id, std::move(pending));
      arm();
    } else {
      ++calling_;
    }
  }
  if (refused) {
    return call(pending, tl::unexpected(*std::move(refused)));
  }
  if (id == 0) {
    return call(pending, std::vector<ExpertOutputs>());
  }
  for (std::size_t i = 0; i < dispatch.parts.size(); ++i) {
    send(id, static_cast<std::uint32_t>(i), dispatch.parts[i], dispatch.deadline);
  }
}

void Exchange::send(std::uint64_t id,
                    std::uint32_t part,
                    const ExpertExchange::Part& to,
                    Instant deadline) {
  if (to.node == parts_.self) {
    const std::uint32_t number = to.batch.shape().shard;
    if (const auto own = shard(number)) {
      own->add({to.node, id, part}, to.batch);
    } else {
      take_answer(
          id, part, fail(Code::kPeerLost, "no expert shard " + std::to_string(number) + " here"));
    }
    return;
  }
  if (parts_.transport == nullptr) {
    take_answer(id,
                part,
                fail(Code::kPeerLost,
                     "node " + std::to_string(to.node.value) + ": no transport leads there"));
    return;
  }
  parts_.transport->send(to.node,
                         kBatches,
                         to.batch.stamped(id, part),
                         deadline,
                         [weak = weak_from_this(), id, part](Result<void> sent) {
                           const auto self = weak.lock();
                           if (self != nullptr && !sent) {
                             self->take_answer(id, part, tl::unexpected(std::move(sent).error()));
                           }
                         });
}

void Exchange::receive_answer(NodeId from, Buffer message) {
  auto answer = read_answer(std::move(message));
  if (!answer) {
    return;  // whoever waits for it has a deadline
  }
  {
    const std::lock_guard lock(mutex_);
    const auto found = pending_.find(answer->dispatch);
    if (found == pending_.end() || answer->part >= found->second.nodes.size() ||
        found->second.nodes[answer->part] != from) {
      return;
    }
    if (answer->outputs && answer->length != found->second.lengths[answer->part]) {
      answer->outputs = fail(Code::kCorrupt, "outputs of experts: they are not as many as asked");
    }
  }
  take_answer(answer->dispatch, answer->part, std::move(answer->outputs));
}

void Exchange::take_answer(std::uint64_t id, std::uint32_t part, Result<ExpertOutputs> outputs) {
  Taken ended;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pending_.find(id);
    if (found == pending_.end() || found->second.outputs[part].holder != nullptr) {
      return;
    }
    Pending& pending = found->second;
    if (outputs) {
      use_.received = use_.received + pending.lengths[part];
      pending.outputs[part] = *std::move(outputs);
      --pending.left;
    }
    if (!outputs || pending.left == 0) {
      ended = take(id);
    }
  }
  if (ended && outputs) {
    call(*ended, std::move(ended->outputs));
  } else if (ended) {
    call(*ended, tl::unexpected(std::move(outputs).error()));
  }
}

// With the lock held; what is taken is to be called.
Exchange::Taken Exchange::take(std::uint64_t id) {
  auto node = pending_.extract(id);
  if (!node) {
    return std::nullopt;
  }
  use_.in_flight = use_.in_flight - node.mapped().held;
  ++calling_;
  return std::move(node.mapped());
}

void Exchange::call(Pending& pending, Result<std::vector<ExpertOutputs>> result) {
  const bool combined = result.has_value();
  pending.done(std::move(result));
  pending.done = nullptr;
  const std::lock_guard lock(mutex_);
  ++(combined ? use_.combined : use_.failed);
  --calling_;
  called_.notify_all();
}

template <class Predicate>
void Exchange::fail_where(const Predicate& predicate, const Error& error) {
  std::vector<Pending> ended;
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint64_t> ids;
    for (const auto& [id, pending] : pending_) {
      if (predicate(pending)) {
        ids.push_back(id);
      }
    }
    for (const std::uint64_t id : ids) {
      ended.push_back(*take(id));
    }
  }
  for (Pending& pending : ended) {
    call(pending, tl::unexpected(error));
  }
}

void Exchange::abort_before(EpochId epoch) {
  {
    const std::lock_guard lock(mutex_);
    floor_ = std::max(floor_, epoch);
  }
  fail_where([epoch](const Pending& pending) { return pending.epoch < epoch; },
             {Code::kPeerLost, "the placement of the experts is not in force any more"});
}

void Exchange::lose(NodeId node) {
  fail_where(
      [node](const Pending& pending) {
        return std::ranges::find(pending.nodes, node) != pending.nodes.end();
      },
      {Code::kPeerLost, "node " + std::to_string(node.value) + " is gone with its expert shards"});
}

// With the lock held. One timer for the next deadline: dispatches end long before theirs.
void Exchange::arm() {
  const auto next = std::ranges::min_element(
      pending_, {}, [](const auto& entry) { return entry.second.deadline; });
  if (next == pending_.end() || (armed_ && *armed_ <= next->second.deadline)) {
    return;
  }
  armed_ = next->second.deadline;
  parts_.timers.defer(std::max(Nanos(0), *armed_ - parts_.timers.now()), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->expire();
    }
  });
}

void Exchange::expire() {
  const Instant now = parts_.timers.now();
  fail_where([now](const Pending& pending) { return pending.deadline <= now; },
             {Code::kDeadline, "an expert shard did not answer by the deadline"});
  const std::lock_guard lock(mutex_);
  if (armed_ && *armed_ <= now) {
    armed_.reset();
  }
  arm();
}

// The node with shards.

void Exchange::serve(std::uint32_t shard, Scheduler executor, ExpertWork work) {
  end(shard);
  const std::lock_guard lock(mutex_);
  if (!stopped_) {
    shards_.insert_or_assign(
        shard,
        std::make_shared<ExpertShard>(
            std::move(executor), std::move(work), parts_.limits, weak_from_this()));
  }
}

void Exchange::end(std::uint32_t shard) {
  std::shared_ptr<ExpertShard> ended;
  {
    const std::lock_guard lock(mutex_);
    if (auto node = shards_.extract(shard)) {
      ended = std::move(node.mapped());
    }
  }
  if (ended != nullptr) {
    ended->end();
  }
}

void Exchange::receive(NodeId from, Buffer message) {
  auto batch = ExpertBatch::read(std::move(message));
  if (!batch) {
    return;  // the source has a deadline
  }
  const BatchOwner owner{from, batch->dispatch(), batch->part()};
  const std::uint32_t number = batch->shape().shard;
  if (const auto own = shard(number)) {
    own->add(owner, *std::move(batch));
  } else {
    answer(owner, fail(Code::kPeerLost, "no expert shard " + std::to_string(number) + " here"));
  }
}

bool Exchange::wants(const BatchOwner& owner) {
  const std::lock_guard lock(mutex_);
  return !stopped_ && (owner.source != parts_.self || pending_.contains(owner.dispatch));
}

void Exchange::answer(const BatchOwner& owner, Result<ExpertOutputs> outputs) {
  if (owner.source == parts_.self) {
    take_answer(owner.dispatch, owner.part, std::move(outputs));
    return;
  }
  // Lost answers are the source's to notice, by its own deadline; but one that cannot be sent says
  // so.
  const auto refused =
      [weak = weak_from_this(), owner, is_error = !outputs.has_value()](Result<void> sent) {
        const auto self = weak.lock();
        if (self != nullptr && !sent && !is_error && sent.error().code == Code::kNoCapacity) {
          self->answer(owner, tl::unexpected(std::move(sent).error()));
        }
      };
  parts_.transport->send(owner.source,
                         kAnswers,
                         make_answer(owner, outputs),
                         parts_.timers.now() + parts_.limits.answer,
                         refused);
}

void Exchange::runs() {
  const std::lock_guard lock(mutex_);
  ++use_.runs;
}

std::shared_ptr<ExpertShard> Exchange::shard(std::uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = shards_.find(number);
  return found == shards_.end() ? nullptr : found->second;
}

void Exchange::stop() {
  std::map<std::uint32_t, std::shared_ptr<ExpertShard>> shards;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    shards.swap(shards_);
  }
  fail_where([](const Pending&) { return true; },
             {Code::kUnavailable, "the exchange of rows with experts has stopped"});
  for (const auto& [number, shard] : shards) {
    shard->end();
  }
  std::unique_lock lock(mutex_);
  called_.wait(lock, [this] { return calling_ == 0; });
}

ExpertExchange::Use Exchange::use() const {
  const std::lock_guard lock(mutex_);
  ExpertExchange::Use use = use_;
  use.dispatches = static_cast<std::int64_t>(pending_.size());
  for (const auto& [number, shard] : shards_) {
    use.waiting += shard->waiting();
  }
  return use;
}

// Timers, executors and the transport may call when the exchange is gone: they hold its state
// weakly.
class ShardExchange final : public ExpertExchange {
 public:
  explicit ShardExchange(ExpertExchangeParts parts)
      : state_(std::make_shared<Exchange>(std::move(parts))) {
    state_->listen();
  }

  ~ShardExchange() override { state_->stop(); }

  void dispatch(Dispatch dispatch, Combined done) override {
    state_->dispatch(std::move(dispatch), std::move(done));
  }

  void abort_before(EpochId epoch) override { state_->abort_before(epoch); }

  void lose(NodeId node) override { state_->lose(node); }

  void serve(std::uint32_t shard, Scheduler executor, ExpertWork work) override {
    state_->serve(shard, std::move(executor), std::move(work));
  }

  void end(std::uint32_t shard) override { state_->end(shard); }

  void stop() override { state_->stop(); }

  Use use() const override { return state_->use(); }

 private:
  const std::shared_ptr<Exchange> state_;
};

}  // namespace

std::unique_ptr<ExpertExchange> make_shard_exchange(ExpertExchangeParts parts) {
  return std::make_unique<ShardExchange>(std::move(parts));
}

}  // namespace shoal::transport
