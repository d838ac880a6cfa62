// A fabric with one endpoint for the source and one for each shard.
#include "transport/sim/sim_experts.h"

#include <map>
#include <utility>

#include "transport/experts/shard_exchange.h"
#include "transport/memory/memory_transport.h"

namespace shoal::transport {
namespace {

constexpr NodeId kSource{0};

// SplitMix64: the same on every machine.
std::uint64_t next_draw(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::function<Verdict(NodeId, NodeId, Bytes)> drawn_verdicts(const SimExpertParts& parts) {
  return [state = parts.seed,
          longest = static_cast<std::uint64_t>(parts.longest_delay.count()),
          lost = static_cast<std::uint64_t>(parts.lost_per_million),
          broken = static_cast<std::uint64_t>(parts.broken_per_million)](
             NodeId, NodeId, Bytes) mutable {
    const Nanos delay(static_cast<std::int64_t>(next_draw(state) % (longest + 1)));
    const std::uint64_t fate = next_draw(state) % 1'000'000;
    return Verdict{delay,
                   fate < lost            ? Fate::kDrop
                   : fate < lost + broken ? Fate::kReset
                                          : Fate::kDeliver};
  };
}

class SimExperts final : public ExpertExchange {
 public:
  explicit SimExperts(SimExpertParts parts)
      : parts_(std::move(parts)),
        fabric_({parts_.scheduler, drawn_verdicts(parts_)}),
        source_(open(kSource, IncarnationId{1})) {}

  ~SimExperts() override { stop(); }

  void dispatch(Dispatch dispatch, Combined done) override {
    for (Part& part : dispatch.parts) {
      part.node = node_of(part.batch.shape().shard);
    }
    source_.exchange->dispatch(std::move(dispatch), std::move(done));
  }

  void abort_before(EpochId epoch) override { source_.exchange->abort_before(epoch); }

  void lose(NodeId node) override { source_.exchange->lose(node); }

  void serve(std::uint32_t shard, Scheduler executor, ExpertWork work) override {
    end(shard);
    const NodeId node = node_of(shard);
    const IncarnationId incarnation{++lives_[shard]};
    Host host = open(node, incarnation);
    host.exchange->serve(shard, executor.now ? std::move(executor) : parts_.scheduler, work);
    host.transport->set_peer({kSource, IncarnationId{1}, {}, 0});
    source_.transport->set_peer({node, incarnation, {}, 0});
    hosts_.insert_or_assign(shard, std::move(host));
  }

  void end(std::uint32_t shard) override {
    if (const auto host = hosts_.extract(shard)) {
      fabric_.set_alive(node_of(shard), IncarnationId{lives_[shard]}, false);
      source_.exchange->lose(node_of(shard));
    }
  }

  void stop() override {
    source_.exchange->stop();
    for (const auto& [shard, host] : hosts_) {
      host.exchange->stop();
      host.transport->stop();
    }
    source_.transport->stop();
  }

  Use use() const override {
    Use use = source_.exchange->use();
    for (const auto& [shard, host] : hosts_) {
      const Use of_host = host.exchange->use();
      use.waiting += of_host.waiting;
      use.runs += of_host.runs;
    }
    return use;
  }

 private:
  struct Host {
    std::unique_ptr<Transport> transport;
    std::unique_ptr<ExpertExchange> exchange;  // ends first
  };

  static NodeId node_of(std::uint32_t shard) { return NodeId{shard + 1}; }

  Host open(NodeId node, IncarnationId incarnation) {
    Host host;
    host.transport = fabric_.open(node, incarnation);
    host.exchange = make_shard_exchange({.self = node,
                                         .timers = parts_.scheduler,
                                         .transport = host.transport.get(),
                                         .limits = parts_.limits});
    return host;
  }

  const SimExpertParts parts_;
  MemoryFabric fabric_;
  Host source_;
  std::map<std::uint32_t, std::uint64_t> lives_;
  std::map<std::uint32_t, Host> hosts_;
};

}  // namespace

std::unique_ptr<ExpertExchange> make_sim_experts(SimExpertParts parts) {
  return std::make_unique<SimExperts>(std::move(parts));
}

}  // namespace shoal::transport
