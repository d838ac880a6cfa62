// One endpoint of a memory fabric as a Transport.
#include "transport/memory/memory_transport.h"

#include <utility>

#include "schemas/check.h"
#include "transport/memory/fabric_state.h"

namespace shoal::transport {
namespace {

class MemoryTransport final : public Transport {
 public:
  MemoryTransport(std::shared_ptr<MemoryFabric::State> fabric, EndpointRef self)
      : fabric_(std::move(fabric)),
        self_(std::move(self)) {}

  ~MemoryTransport() override { fabric_->stop(self_); }

  std::uint16_t port() const override { return 0; }

  void set_peer(const PeerAddress& peer) override { fabric_->set_peer(self_, peer); }

  void forget_peer(NodeId node) override { fabric_->forget_peer(self_, node); }

  Result<void> offer(BufferKey key, Buffer bytes) override {
    return self_->offers.offer(key, std::move(bytes));
  }

  void withdraw(BufferKey key) override { self_->offers.withdraw(key); }

  Buffer offered(BufferKey key) const override { return self_->offers.find(key); }

  void fetch(NodeId from, BufferKey key, Instant deadline, Fetched done) override {
    fabric_->fetch(self_, key, {from, deadline, std::move(done)});
  }

  void on_message(std::uint8_t channel, OnMessage handler) override {
    fabric_->on_message(self_, channel, std::move(handler));
  }

  void send(NodeId to, std::uint8_t channel, Buffer message, Instant deadline, Sent done) override {
    CHECK(message != nullptr);
    fabric_->send(self_,
                  {0, channel, std::move(message), false},
                  {to, deadline, as_fetched(std::move(done))});
  }

  void stop() override { fabric_->stop(self_); }

  Use use() const override { return fabric_->use(self_); }

 private:
  const std::shared_ptr<MemoryFabric::State> fabric_;
  const EndpointRef self_;
};

}  // namespace

MemoryFabric::MemoryFabric(FabricParts parts) : state_(std::make_shared<State>(std::move(parts))) {}

MemoryFabric::~MemoryFabric() = default;

std::unique_ptr<Transport> MemoryFabric::open(NodeId node,
                                              IncarnationId incarnation,
                                              const TransportLimits& limits) {
  return std::make_unique<MemoryTransport>(state_, state_->open({node, incarnation}, limits));
}

void MemoryFabric::set_alive(NodeId node, IncarnationId incarnation, bool alive) {
  state_->set_alive({node, incarnation}, alive);
}

}  // namespace shoal::transport
