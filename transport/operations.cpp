// Three indices over the pending operations: by id, by deadline, by peer.
#include "transport/operations.h"

namespace shoal::transport {

Transport::Fetched as_fetched(Transport::Sent done) {
  return [done = std::move(done)](Result<Buffer> answer) {
    if (answer) {
      done({});
    } else {
      done(tl::unexpected(std::move(answer).error()));
    }
  };
}

std::uint64_t Operations::add(Operation operation) {
  const std::uint64_t id = ++last_;
  by_deadline_.emplace(operation.deadline, id);
  by_peer_[operation.peer].insert(id);
  pending_.emplace(id, std::move(operation));
  return id;
}

std::int64_t Operations::with_peer(NodeId peer) const {
  const auto found = by_peer_.find(peer);
  return found == by_peer_.end() ? 0 : static_cast<std::int64_t>(found->second.size());
}

std::optional<Instant> Operations::next_deadline() const {
  if (by_deadline_.empty()) {
    return std::nullopt;
  }
  return by_deadline_.begin()->first;
}

std::optional<std::uint64_t> Operations::first_due(Instant now) const {
  if (by_deadline_.empty() || by_deadline_.begin()->first > now) {
    return std::nullopt;
  }
  return by_deadline_.begin()->second;
}

std::vector<std::uint64_t> Operations::all_with_peer(NodeId peer) const {
  const auto found = by_peer_.find(peer);
  if (found == by_peer_.end()) {
    return {};
  }
  return {found->second.begin(), found->second.end()};
}

std::vector<std::uint64_t> Operations::all() const {
  std::vector<std::uint64_t> ids;
  for (const auto& [deadline, id] : by_deadline_) {
    ids.push_back(id);
  }
  return ids;
}

std::optional<Operations::Operation> Operations::take(std::uint64_t id) {
  auto taken = pending_.extract(id);
  if (taken.empty()) {
    return std::nullopt;
  }
  Operation operation = std::move(taken.mapped());
  by_deadline_.erase({operation.deadline, id});
  const auto peer = by_peer_.find(operation.peer);
  peer->second.erase(id);
  if (peer->second.empty()) {
    by_peer_.erase(peer);
  }
  return operation;
}

}  // namespace shoal::transport
