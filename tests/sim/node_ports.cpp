// Forwards everything; deadlines become the world's.
#include "tests/sim/node_ports.h"

#include <utility>

namespace shoal::sim {
namespace {

class Links final : public LinkPort {
 public:
  Links(std::unique_ptr<LinkPort> inner, const NodeClock& clock)
      : inner_(std::move(inner)),
        clock_(clock) {}

  void listen(Accept accept) override { inner_->listen(std::move(accept)); }

  void dial(NodeId to, Instant deadline, Dialed done) override {
    inner_->dial(to, clock_.to_world(deadline), std::move(done));
  }

  void stop() override { inner_->stop(); }

 private:
  std::unique_ptr<LinkPort> inner_;
  const NodeClock& clock_;
};

class Bulk final : public transport::Transport {
 public:
  Bulk(std::unique_ptr<Transport> inner, const NodeClock& clock, OtherBuffer other)
      : inner_(std::move(inner)),
        clock_(clock),
        other_(std::move(other)) {}

  std::uint16_t port() const override { return inner_->port(); }

  void set_peer(const transport::PeerAddress& peer) override { inner_->set_peer(peer); }

  void forget_peer(NodeId node) override { inner_->forget_peer(node); }

  Result<void> offer(BufferKey key, transport::Buffer bytes) override {
    return inner_->offer(key, std::move(bytes));
  }

  void withdraw(BufferKey key) override { inner_->withdraw(key); }

  transport::Buffer offered(BufferKey key) const override { return inner_->offered(key); }

  void fetch(NodeId from, BufferKey key, Instant deadline, Fetched done) override {
    inner_->fetch(
        from, other_ ? other_(from, key) : key, clock_.to_world(deadline), std::move(done));
  }

  void on_message(std::uint8_t channel, OnMessage handler) override {
    inner_->on_message(channel, std::move(handler));
  }

  void send(NodeId to,
            std::uint8_t channel,
            transport::Buffer message,
            Instant deadline,
            Sent done) override {
    inner_->send(to, channel, std::move(message), clock_.to_world(deadline), std::move(done));
  }

  void stop() override { inner_->stop(); }

  Use use() const override { return inner_->use(); }

 private:
  std::unique_ptr<Transport> inner_;
  const NodeClock& clock_;
  OtherBuffer other_;
};

}  // namespace

std::unique_ptr<LinkPort> with_clock(std::unique_ptr<LinkPort> links, const NodeClock& clock) {
  return std::make_unique<Links>(std::move(links), clock);
}

std::unique_ptr<transport::Transport> with_clock(std::unique_ptr<transport::Transport> transport,
                                                 const NodeClock& clock,
                                                 OtherBuffer other) {
  return std::make_unique<Bulk>(std::move(transport), clock, std::move(other));
}

}  // namespace shoal::sim
