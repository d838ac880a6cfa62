// The fetches and sends that wait for an answer: each leaves the table once, with its callback. One
// thread, or under the owner's lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace shoal::transport {

// A send is a fetch of nothing here: one kind of callback for both.
Transport::Fetched as_fetched(Transport::Sent done);

class Operations {
 public:
  struct Operation {
    NodeId peer;
    Instant deadline;
    Transport::Fetched done;
  };

  std::uint64_t add(Operation operation);

  bool contains(std::uint64_t id) const { return pending_.contains(id); }

  std::int64_t size() const { return static_cast<std::int64_t>(pending_.size()); }

  // Of one that is pending.
  NodeId peer_of(std::uint64_t id) const { return pending_.at(id).peer; }

  std::int64_t with_peer(NodeId peer) const;
  std::optional<Instant> next_deadline() const;
  // The first by deadline of those that are due.
  std::optional<std::uint64_t> first_due(Instant now) const;
  std::vector<std::uint64_t> all_with_peer(NodeId peer) const;
  std::vector<std::uint64_t> all() const;

  std::optional<Operation> take(std::uint64_t id);

 private:
  std::uint64_t last_ = 0;
  std::unordered_map<std::uint64_t, Operation> pending_;
  std::set<std::pair<Instant, std::uint64_t>> by_deadline_;
  std::map<NodeId, std::set<std::uint64_t>> by_peer_;
};

}  // namespace shoal::transport
