// The boards between actors and other threads.
#include "actors/context.h"

#include <algorithm>
#include <utility>

namespace shoal {

void ShardTable::attach(std::uint32_t shard, ShardInbox& inbox) {
  const std::lock_guard lock(mutex_);
  inboxes_[shard] = &inbox;
}

ShardInbox* ShardTable::find(std::uint32_t shard) const {
  const std::lock_guard lock(mutex_);
  const auto it = inboxes_.find(shard);
  return it == inboxes_.end() ? nullptr : it->second;
}

void OpenWork::add(std::int64_t change) {
  {
    const std::lock_guard lock(mutex_);
    count_ += change;
  }
  changed_.notify_all();
}

bool OpenWork::wait_until_none(Nanos limit) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return count_ == 0; });
}

void PriceBoard::set(const CostCoefficients& cost) {
  const std::lock_guard lock(mutex_);
  cost_ = cost;
}

std::optional<CostCoefficients> PriceBoard::get() const {
  const std::lock_guard lock(mutex_);
  return cost_;
}

void HealthBoard::publish(NodeHealth health, Instant now) {
  {
    const std::lock_guard lock(mutex_);
    health_ = std::move(health);
    published_ = now;
  }
  changed_.notify_all();
}

bool HealthBoard::wait_until_started(Nanos limit) const {
  std::unique_lock lock(mutex_);
  // In a cluster that is not whole yet the node's state says that, whatever its own parts do.
  return changed_.wait_for(lock, limit, [this] {
    return health_.state != PartState::kStarting &&
           std::none_of(health_.parts.begin(), health_.parts.end(), [](const PartHealth& part) {
             return part.state == PartState::kStarting;
           });
  });
}

NodeHealth HealthBoard::read(Instant now, Nanos oldest) const {
  const std::lock_guard lock(mutex_);
  NodeHealth health = health_;
  const Nanos age = now - published_;
  if (!health.parts.empty() && age >= oldest) {
    health.state = PartState::kDead;
    health.parts.push_back({"supervisor", PartState::kDead, "no judgement", age});
  }
  return health;
}

void NodeContext::note(const RequestNoted& noted) {
  timelines.open(noted.request, noted.tenant, noted.choice, now());
  timelines.add(noted.request, now(), noted.entry);
}

}  // namespace shoal
