// Links between simulated nodes: real bytes in virtual time, with partitions and deaths. A cut
// holds what is on the way, as TCP would, so the two sides of a link may disagree for a while.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/link.h"
#include "schemas/ids.h"
#include "tests/sim/timeline.h"

namespace shoal::sim {

class Network {
 public:
  // `latency`: of the next message, drawn by the world.
  Network(Timeline& timeline, std::function<Nanos(NodeId from, NodeId to)> latency);
  ~Network();

  // The port of one life of a node; the life before it must have been severed.
  std::unique_ptr<LinkPort> open(NodeId node);
  // The process is gone: the other ends of its links see them reset.
  void sever(NodeId node);
  // Nothing passes between the two until it is mended.
  void cut(NodeId a, NodeId b);
  void mend(NodeId a, NodeId b);
  // All links between the two are lost, at both ends.
  void reset(NodeId a, NodeId b);

  bool is_cut(NodeId a, NodeId b) const { return cuts_.contains(pair(a, b)); }

  // What becomes of a message when it is sent: the messages that go on the way instead, in order.
  using Tamper = std::function<std::vector<std::string>(NodeId from, NodeId to, std::string bytes)>;

  void tamper(Tamper tamper) { tamper_ = std::move(tamper); }

 private:
  class Connection;
  class End;
  class Port;

  static std::pair<NodeId, NodeId> pair(NodeId a, NodeId b) {
    return a < b ? std::pair(a, b) : std::pair(b, a);
  }

  void connect(NodeId from, NodeId to, Instant deadline, LinkPort::Dialed done);
  void forget_closed();

  Timeline& timeline_;
  std::function<Nanos(NodeId, NodeId)> latency_;
  std::set<std::pair<NodeId, NodeId>> cuts_;
  std::vector<Port*> ports_;  // by NodeId; null: nobody listens
  std::vector<std::shared_ptr<Connection>> connections_;
  Tamper tamper_;
};

}  // namespace shoal::sim
