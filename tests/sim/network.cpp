// A connection is two directions of items in order; an item is bytes, or the end of the link.
#include "tests/sim/network.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <string>

namespace shoal::sim {

// One side: 0 dialed, 1 accepted.
class Network::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Network& network, NodeId dialer, NodeId acceptor)
      : network_(network),
        nodes_{dialer, acceptor} {}

  void start(int side, LinkEvents events) {
    Side& mine = sides_[side];
    mine.events = std::move(events);
    for (std::string& bytes : std::exchange(mine.early, {})) {
      hand_over(side, std::move(bytes));
    }
    if (mine.lost_early) {
      lose(side);
    }
  }

  void send(int from, std::string bytes) {
    if (!network_.tamper_) {
      put(from, std::move(bytes));
      return;
    }
    const int to = 1 - from;
    for (std::string& instead : network_.tamper_(nodes_[from], nodes_[to], std::move(bytes))) {
      put(from, std::move(instead));
    }
  }

  void close(int side) {
    if (!sides_[side].closed) {
      put(side, std::nullopt);
      sides_[side].closed = true;
      sides_[side].events = {};
    }
  }

  void reset() {
    for (int side = 0; side < 2; ++side) {
      lose(side);
    }
  }

  void release_held() {
    for (int to = 0; to < 2; ++to) {
      for (auto& item : std::exchange(sides_[to].held, {})) {
        take(to, std::move(item));
      }
    }
  }

  bool is_between(NodeId a, NodeId b) const { return pair(nodes_[0], nodes_[1]) == pair(a, b); }

  int side_of(NodeId node) const { return nodes_[0] == node ? 0 : nodes_[1] == node ? 1 : -1; }

  bool over() const { return sides_[0].closed && sides_[1].closed; }

 private:
  struct Side {
    std::optional<LinkEvents> events;
    bool closed = false;  // no events any more
    bool lost_early = false;
    Instant last_arrival{};
    std::vector<std::string> early;               // before start()
    std::deque<std::optional<std::string>> held;  // by a cut
  };

  void put(int from, std::optional<std::string> item) {
    if (sides_[from].closed) {
      return;
    }
    const int to = 1 - from;
    const Instant now = network_.timeline_.now();
    Instant& last = sides_[to].last_arrival;
    last = std::max(last, now + network_.latency_(nodes_[from], nodes_[to]));
    network_.timeline_.after(last - now,
                             [self = shared_from_this(), to, item = std::move(item)]() mutable {
                               self->arrive(to, std::move(item));
                             });
  }

  void arrive(int to, std::optional<std::string> item) {
    if (network_.is_cut(nodes_[0], nodes_[1]) || !sides_[to].held.empty()) {
      sides_[to].held.push_back(std::move(item));
    } else {
      take(to, std::move(item));
    }
  }

  void take(int to, std::optional<std::string> item) {
    if (!item) {
      lose(to);
    } else {
      hand_over(to, *std::move(item));
    }
  }

  void hand_over(int to, std::string bytes) {
    Side& side = sides_[to];
    if (side.closed) {
      return;
    }
    if (!side.events) {
      side.early.push_back(std::move(bytes));
      return;
    }
    side.events->received(std::move(bytes));
  }

  void lose(int side) {
    Side& mine = sides_[side];
    if (mine.closed) {
      return;
    }
    if (!mine.events) {
      mine.lost_early = true;
      return;
    }
    mine.closed = true;
    const auto lost = std::move(mine.events->lost);
    mine.events = LinkEvents{};
    lost(Error{Code::kPeerLost, "the link was reset"});
  }

  Network& network_;
  std::array<NodeId, 2> nodes_;
  std::array<Side, 2> sides_;
};

class Network::End final : public Link {
 public:
  End(std::shared_ptr<Connection> connection, int side)
      : connection_(std::move(connection)),
        side_(side) {}

  ~End() override { connection_->close(side_); }

  void start(LinkEvents events) override { connection_->start(side_, std::move(events)); }

  void send(std::string bytes) override { connection_->send(side_, std::move(bytes)); }

  void close() override { connection_->close(side_); }

 private:
  std::shared_ptr<Connection> connection_;
  int side_;
};

class Network::Port final : public LinkPort {
 public:
  Port(Network& network, NodeId node) : network_(network), node_(node) {}

  ~Port() override { stop(); }

  void listen(Accept accept) override { accept_ = std::move(accept); }

  void dial(NodeId to, Instant deadline, Dialed done) override {
    if (!stopped_) {
      network_.connect(node_, to, deadline, std::move(done));
    }
  }

  void stop() override {
    if (!std::exchange(stopped_, true)) {
      accept_ = nullptr;
      network_.sever(node_);
    }
  }

  bool listens() const { return accept_ != nullptr; }

  void accept(NodeId from, LinkPtr link) { accept_(from, std::move(link)); }

 private:
  Network& network_;
  NodeId node_;
  Accept accept_;
  bool stopped_ = false;
};

Network::Network(Timeline& timeline, std::function<Nanos(NodeId, NodeId)> latency)
    : timeline_(timeline),
      latency_(std::move(latency)) {}

Network::~Network() = default;

std::unique_ptr<LinkPort> Network::open(NodeId node) {
  if (ports_.size() <= node.value) {
    ports_.resize(node.value + 1, nullptr);
  }
  auto port = std::make_unique<Port>(*this, node);
  ports_[node.value] = port.get();
  return port;
}

void Network::sever(NodeId node) {
  ports_[node.value] = nullptr;
  for (const auto& connection : std::vector(connections_)) {
    if (const int side = connection->side_of(node); side >= 0) {
      connection->close(side);
    }
  }
  forget_closed();
}

void Network::cut(NodeId a, NodeId b) {
  cuts_.insert(pair(a, b));
}

void Network::mend(NodeId a, NodeId b) {
  cuts_.erase(pair(a, b));
  for (const auto& connection : std::vector(connections_)) {
    if (connection->is_between(a, b)) {
      connection->release_held();
    }
  }
}

void Network::reset(NodeId a, NodeId b) {
  for (const auto& connection : std::vector(connections_)) {
    if (connection->is_between(a, b)) {
      connection->reset();
    }
  }
  forget_closed();
}

void Network::forget_closed() {
  std::erase_if(connections_, [](const auto& connection) { return connection->over(); });
}

// While the two are cut off, a dial gets no answer until its deadline.
void Network::connect(NodeId from, NodeId to, Instant deadline, LinkPort::Dialed done) {
  timeline_.after(latency_(from, to), [this, from, to, deadline, done = std::move(done)] {
    if (is_cut(from, to)) {
      timeline_.after(std::max(Nanos{0}, deadline - timeline_.now()), [done] {
        done(tl::unexpected(Error{Code::kDeadline, "no answer"}));
      });
      return;
    }
    Port* port = to.value < ports_.size() ? ports_[to.value] : nullptr;
    if (port == nullptr || !port->listens()) {
      done(tl::unexpected(Error{Code::kUnavailable, "connection refused"}));
      return;
    }
    auto connection = std::make_shared<Connection>(*this, from, to);
    connections_.push_back(connection);
    port->accept(from, std::make_shared<End>(connection, 1));
    done(std::make_shared<End>(connection, 0));
  });
}

}  // namespace shoal::sim
