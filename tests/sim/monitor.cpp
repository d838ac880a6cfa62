// Every 20 ms of virtual time.
#include "tests/sim/monitor.h"

#include <algorithm>
#include <utility>

#include "transport/file_store/file_store.h"

namespace shoal::sim {
namespace {

constexpr Nanos kPeriod = std::chrono::milliseconds(20);
// Heartbeats from a cause to the health page: two to see it, one to publish, one for the way.
constexpr int kHeartbeatsToTell = 4;
// From when no call to a disk returns until its store says so: a round begins, three seconds of
// silence, what reads it.
constexpr Nanos kSilence = std::chrono::seconds(8);
// A view change besides: the store, the messages.
constexpr Nanos kViewChange = std::chrono::seconds(3);

}  // namespace

void Monitor::start() {
  world_.timeline().after(kPeriod, [this] {
    look();
    start();
  });
}

void Monitor::look() {
  for (std::uint32_t n = 0; n < world_.size(); ++n) {
    const NodeId node{n};
    if (world_.alive(node) && !world_.paused(node)) {
      ceilings(node);
      health(node);
      store(node);
    }
  }
  files();
}

// What a KV store forgot goes into the event log. 7. Never `ok` where it writes nothing, or nothing
// comes back from its disk.
void Monitor::store(NodeId node) {
  if (!world_.keeps_kv()) {
    return;
  }
  const auto use = world_.kv_use(node);
  const auto before = std::exchange(seen_[node], use);
  if (use.expired > before.expired || use.evicted > before.evicted) {
    world_.kv_truth().allow_forgetting();
  }
  if (use.expired > before.expired) {
    world_.tell(node, "blocks.expired");
  }
  if (use.evicted > before.evicted) {
    world_.tell(node, "blocks.evicted");
  }
  const Nanos heartbeat = std::chrono::milliseconds(world_.config().supervisor().heartbeat_ms());
  if (world_.uses_kv(node) &&
      world_.disk_hangs_for(node) > kSilence + heartbeat * kHeartbeatsToTell) {
    is_not_ok(node, "no call to the disk of its KV store returns");
  }
  if (use.writable) {
    refuses_since_.erase(node);
    return;
  }
  const Instant since = refuses_since_.try_emplace(node, world_.now()).first->second;
  if (world_.now() - std::max(since, world_.runs_since(node)) > heartbeat * kHeartbeatsToTell &&
      world_.uses_kv(node)) {
    is_not_ok(node, "its KV store refuses writes");
  }
}

// 5. No queue grows beyond what the configuration declares.
void Monitor::ceilings(NodeId node) {
  const Config& config = world_.config();
  const NodeMetrics& metrics = world_.node(node).metrics();
  const auto nodes = static_cast<std::int64_t>(world_.size());
  keeps_under(node, "open answers", metrics.gateway_open, config.request().ceiling());
  keeps_under(node, "the ledger", metrics.ledger_open, config.request().ceiling() * nodes);
  for (const auto& queued : metrics.prefill_queued) {
    keeps_under(node, "a prefill queue", queued, config.prefill().queue());
  }
  // What a group gave back goes in front of a full queue.
  keeps_under(node,
              "the decode queue",
              metrics.decode_queued,
              config.decode().queue() + config.decode().max_batch());
  keeps_under(
      node, "bytes for slow nodes", metrics.link_waiting, config.link().queue_bytes() * nodes);
  if (world_.keeps_kv()) {
    keeps_under(node,
                "bytes that wait to be stored",
                world_.kv_use(node).queued.value,
                world_.kv_limits().queued.value);
    keeps_under(node,
                "bytes that are loaded",
                world_.kv_use(node).loading.value,
                std::max(world_.kv_limits().loading, world_.kv_truth().largest_get()).value);
  }
  if (world_.has_clients(node)) {
    keeps_under(node,
                "tokens a client does not read",
                world_.clients(node).most_unread(),
                world_.unread_tokens());
  }
}

// 5. What lies on the disk, whoever wrote it: each writer may have begun a segment of which the
// others do not know yet.
void Monitor::files() {
  if (!world_.keeps_kv()) {
    return;
  }
  std::int64_t writers = 0;
  for (std::uint32_t n = 0; n < world_.size(); ++n) {
    writers += world_.has_device(NodeId{n}) ? 1 : 0;
  }
  const transport::BlockStoreLimits& limits = world_.kv_limits();
  const std::int64_t most = transport::most_files(limits, writers).value;
  if (const Bytes there = world_.kv_files(); there.value > most) {
    violate("within_ceilings",
            "the files of the KV stores have " + std::to_string(there.value) +
                " bytes of at most " + std::to_string(most));
  }
}

void Monitor::keeps_under(NodeId node,
                          const std::string& what,
                          std::int64_t count,
                          std::int64_t ceiling) {
  if (count > ceiling) {
    violate("within_ceilings",
            "node " + std::to_string(node.value) + ": " + what + " has " + std::to_string(count) +
                " of at most " + std::to_string(ceiling));
  }
}

// 7. Never `ok` without progress, nor when another node is gone that was not told to end.
void Monitor::health(NodeId node) {
  const auto& supervisor = world_.config().supervisor();
  const Nanos heartbeat = std::chrono::milliseconds(supervisor.heartbeat_ms());
  const Instant now = world_.now();
  if (world_.has_device(node)) {
    const Nanos stall = std::chrono::milliseconds(supervisor.stall_ms());
    const auto since = world_.device(node).works_since();
    if (since &&
        now - std::max(*since, world_.runs_since(node)) > stall + heartbeat * kHeartbeatsToTell) {
      is_not_ok(node, "its device has not finished anything for longer than stall_ms");
    }
  }
  const Nanos told = heartbeat * (supervisor.dead() + kHeartbeatsToTell) + kViewChange;
  for (std::uint32_t other = 0; other < world_.size(); ++other) {
    const auto away = world_.away_since(NodeId{other});
    if (away && !world_.draining(NodeId{other}) &&
        now - std::max(*away, world_.runs_since(node)) > told) {
      is_not_ok(node, "node " + std::to_string(other) + " is away");
    }
  }
}

void Monitor::is_not_ok(NodeId node, const std::string& why) {
  const PartState state = world_.node(node).health().state;
  if (state == PartState::kOk || state == PartState::kBusy) {
    violate("honest_health", "node " + std::to_string(node.value) + " says ok, but " + why);
  }
}

void Monitor::violate(const std::string& invariant, const std::string& what) {
  const bool known =
      std::any_of(violations_.begin(), violations_.end(), [&invariant](const Violation& seen) {
        return seen.invariant == invariant;
      });
  if (!known) {
    violations_.push_back({invariant, what + ", at " + world_.ms_text(world_.now()) + " ms", {}});
  }
}

}  // namespace shoal::sim
