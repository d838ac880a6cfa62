// Each fault is two events of the timeline: it begins, it ends. Nodes that are dead by then are
// left alone.
#include "tests/sim/faults.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tests/sim/listed.h"

namespace shoal::sim {
namespace {

using scenario::Fault;
using std::chrono::milliseconds;

constexpr std::array kAllKinds = {Fault::KILL,
                                  Fault::PAUSE,
                                  Fault::CUT,
                                  Fault::RESET,
                                  Fault::END_PART,
                                  Fault::DEVICE_FAIL,
                                  Fault::DEVICE_STUCK,
                                  Fault::DEVICE_SLOW,
                                  Fault::STORM,
                                  Fault::DROP_BULK,
                                  Fault::CORRUPT_BULK,
                                  Fault::SLOW_LINK,
                                  Fault::STORE_AWAY,
                                  Fault::DRAIN,
                                  Fault::CLOCK_DRIFT};

constexpr std::array kStoreKinds = {Fault::KV_AWAY,
                                    Fault::KV_HANG,
                                    Fault::KV_FULL,
                                    Fault::KV_READ_ONLY,
                                    Fault::KV_SLOW,
                                    Fault::POWER_LOSS,
                                    Fault::KV_FLIP,
                                    Fault::KV_TRUNCATE,
                                    Fault::KV_SWAP,
                                    Fault::WALL_JUMP};

bool is_of_store(Fault::Kind kind) {
  return std::find(kStoreKinds.begin(), kStoreKinds.end(), kind) != kStoreKinds.end();
}

}  // namespace

bool Breakable::has_expert_nodes() const {
  return std::any_of(
      nodes.begin(), nodes.end(), [](const NodeRoles& roles) { return roles.experts; });
}

int Breakable::expert_shards(std::uint32_t node) const {
  if (has_expert_nodes()) {
    return nodes[node].experts ? std::max(1, shards) : 0;
  }
  return nodes[node].has_device() ? shards : 0;
}

int Breakable::expert_shards() const {
  int all = 0;
  for (std::uint32_t node = 0; node < nodes.size(); ++node) {
    all += expert_shards(node);
  }
  return all;
}

namespace {

std::vector<std::string> parts_of(const Breakable& there, std::uint32_t node) {
  const NodeRoles& roles = there.nodes[node];
  std::vector<std::string> parts;
  if (roles.router) {
    parts.emplace_back("router");
    parts.emplace_back("decode_balancer");
    for (int k = 0; k < 4; ++k) {
      parts.push_back("prefill_balancer." + std::to_string(k));
    }
  }
  if (roles.prefill) {
    parts.emplace_back("prefill_group");
    parts.emplace_back("prefill_worker.0");
  }
  if (roles.decode) {
    parts.emplace_back("decode_group");
    parts.emplace_back("decode_worker.0");
  }
  if (roles.has_device() && there.has_expert_nodes()) {
    parts.emplace_back("expert_source");
  }
  for (int shard = 0; shard < there.expert_shards(node); ++shard) {
    parts.push_back("expert_shard." + std::to_string(shard));
  }
  if (there.has_store && (roles.router || roles.has_device())) {
    parts.emplace_back("kv_client");
  }
  if (there.has_expert_nodes() ? node == 0 : there.expert_shards(node) > 0) {
    parts.emplace_back("ep_balancer");
  }
  if (node == 0) {
    parts.emplace_back("membership");
    parts.emplace_back("autoscaler");
  }
  for (std::uint32_t other = 0; other < there.nodes.size(); ++other) {
    if (other != node) {
      parts.push_back("peer." + std::to_string(other));
    }
  }
  return parts;
}

bool is_between_two(Fault::Kind kind) {
  return kind == Fault::CUT || kind == Fault::RESET || kind == Fault::DROP_BULK ||
         kind == Fault::CORRUPT_BULK || kind == Fault::SLOW_LINK;
}

bool is_of_device(Fault::Kind kind) {
  return kind == Fault::DEVICE_FAIL || kind == Fault::DEVICE_STUCK || kind == Fault::DEVICE_SLOW;
}

bool uses_count(Fault::Kind kind) {
  return kind == Fault::DEVICE_FAIL || kind == Fault::DEVICE_SLOW || kind == Fault::SLOW_LINK ||
         kind == Fault::CLOCK_DRIFT || kind == Fault::KV_SLOW || kind == Fault::KV_FLIP ||
         kind == Fault::WALL_JUMP;
}

Result<void> refuse(const Fault& fault, const std::string& what) {
  return fail(Code::kMisconfigured, "fault " + Fault::Kind_Name(fault.kind()) + ": " + what);
}

Result<void> check_place(const Fault& fault, const std::vector<NodeRoles>& nodes) {
  const std::string there_are = "there are nodes 0 .. " + std::to_string(nodes.size() - 1);
  if (fault.node() >= nodes.size() || fault.peer() >= nodes.size()) {
    return refuse(fault, there_are);
  }
  if (is_between_two(fault.kind()) && (!fault.has_peer() || fault.peer() == fault.node())) {
    return refuse(
        fault, "peer: name another node than " + std::to_string(fault.node()) + "; " + there_are);
  }
  const NodeRoles& roles = nodes[fault.node()];
  const std::string node = "node " + std::to_string(fault.node());
  if (is_of_device(fault.kind()) && !roles.has_device()) {
    return refuse(fault, node + " has no device; choose one with role prefill or decode");
  }
  if (fault.kind() == Fault::STORM && !roles.gateway) {
    return refuse(fault, node + " has no clients; choose one with role gateway");
  }
  return {};
}

Result<void> check_part(const Fault& fault, const Breakable& there) {
  if (fault.kind() != Fault::END_PART) {
    return {};
  }
  auto parts = parts_of(there, fault.node());
  if (there.nodes[fault.node()].gateway) {
    parts.emplace_back("gateway");
  }
  if (std::find(parts.begin(), parts.end(), fault.part()) != parts.end()) {
    return {};
  }
  return refuse(fault,
                "part: node " + std::to_string(fault.node()) + " has no \"" + fault.part() +
                    "\"; it has " + listed(parts));
}

Result<void> check_amounts(const Fault& fault) {
  if (fault.at_ms() < 0 || fault.for_ms() < 0) {
    return refuse(fault, "at_ms, for_ms: expected 0 or more");
  }
  const Fault::Kind kind = fault.kind();
  const bool counts_up = kind == Fault::DEVICE_FAIL || kind == Fault::SLOW_LINK ||
                         kind == Fault::KV_SLOW || kind == Fault::KV_FLIP;
  if (counts_up && fault.count() < 1) {
    return refuse(fault, "count: expected 1 or more");
  }
  if (kind == Fault::DEVICE_SLOW && fault.count() < 2) {
    return refuse(fault, "count: expected 2 or more, steps take that many times longer");
  }
  if (kind == Fault::CLOCK_DRIFT && fault.count() == 0) {
    return refuse(fault, "count: expected ms a second, other than 0");
  }
  if (kind == Fault::WALL_JUMP && fault.count() == 0) {
    return refuse(fault, "count: expected hours, other than 0");
  }
  return {};
}

template <class Range>
auto pick(const Range& range, std::mt19937_64& seed) {
  return range[seed() % range.size()];
}

void leave_all(World& world, NodeId node) {
  if (!world.alive(node) || !world.has_clients(node)) {
    return;
  }
  testing::Clients& clients = world.clients(node);
  for (const RequestId request : clients.requests()) {
    if (!clients.answer(request).over()) {
      clients.leave(request);
    }
  }
}

bool ends_at_once(Fault::Kind kind) {
  return kind == Fault::RESET || kind == Fault::END_PART || kind == Fault::DEVICE_FAIL ||
         kind == Fault::STORM || kind == Fault::KV_FLIP || kind == Fault::KV_TRUNCATE ||
         kind == Fault::KV_SWAP;
}

// What the event log says of it: the fields that its kind makes use of.
std::string fields_of(const Fault& fault) {
  std::string fields = " fault=" + Fault::Kind_Name(fault.kind());
  if (is_between_two(fault.kind())) {
    fields += " peer=" + std::to_string(fault.peer());
  }
  if (fault.kind() == Fault::END_PART) {
    fields += " part=" + fault.part();
  }
  if (uses_count(fault.kind())) {
    fields += " count=" + std::to_string(fault.count());
  }
  return fields;
}

void begin(World& world, const Fault& fault) {
  const NodeId node{fault.node()};
  const NodeId peer{fault.peer()};
  if (!world.alive(node)) {
    world.tell(node, "world.fault_missed" + fields_of(fault) + " reason=\"the node is dead\"");
    return;
  }
  world.tell(node, "world.fault_begins" + fields_of(fault));
  switch (fault.kind()) {
    case Fault::KILL:
      world.kill(node);
      return;
    case Fault::DRAIN:
      world.drain(node);
      return;
    case Fault::PAUSE:
      world.pause(node, true);
      return;
    case Fault::CUT:
      world.cut(node, peer);
      return;
    case Fault::RESET:
      world.network().reset(node, peer);
      return;
    case Fault::END_PART:
      world.break_part(node, fault.part());
      return;
    case Fault::DEVICE_FAIL:
      world.device(node).fail_next(fault.count());
      return;
    case Fault::DEVICE_STUCK:
      world.device(node).hold(true);
      return;
    case Fault::DEVICE_SLOW:
      world.device(node).slow_down(std::max<std::int64_t>(1, fault.count()));
      return;
    case Fault::STORM:
      leave_all(world, node);
      return;
    case Fault::DROP_BULK:
      world.spoil_bulk(node, peer, transport::Fate::kDrop);
      return;
    case Fault::CORRUPT_BULK:
      world.spoil_bulk(node, peer, transport::Fate::kCorrupt);
      return;
    case Fault::SLOW_LINK:
      world.slow_link(node, peer, milliseconds(fault.count()));
      return;
    case Fault::STORE_AWAY:
      world.take_store_away(true);
      return;
    case Fault::CLOCK_DRIFT:
      world.drift_clock(node, 1'000 * fault.count());
      return;
    case Fault::KV_AWAY:
      world.set_mount(node, Mount::kAway);
      return;
    case Fault::KV_HANG:
      world.hang_disk(node, true);
      return;
    case Fault::KV_FULL:
      world.set_mount(node, Mount::kFull);
      return;
    case Fault::KV_READ_ONLY:
      world.set_mount(node, Mount::kReadOnly);
      return;
    case Fault::KV_SLOW:
      world.slow_disk(node, milliseconds(fault.count()));
      return;
    case Fault::POWER_LOSS:
      world.lose_power(node);
      return;
    case Fault::KV_FLIP:
      world.flip_bits(fault.count());
      return;
    case Fault::KV_TRUNCATE:
      world.truncate_segment();
      return;
    case Fault::KV_SWAP:
      world.swap_segments();
      return;
    case Fault::WALL_JUMP:
      world.set_wall(node, std::chrono::hours(fault.count()));
      return;
  }
}

void end(World& world, const Fault& fault) {
  const NodeId node{fault.node()};
  const NodeId peer{fault.peer()};
  if (!ends_at_once(fault.kind())) {
    world.tell(node, "world.fault_ends" + fields_of(fault));
  }
  switch (fault.kind()) {
    case Fault::KILL:
    case Fault::POWER_LOSS:
    case Fault::DRAIN:
      if (!world.alive(node)) {
        world.restart(node);
      }
      return;
    case Fault::PAUSE:
      world.pause(node, false);
      return;
    case Fault::CUT:
      world.mend(node, peer);
      return;
    case Fault::DEVICE_STUCK:
    case Fault::DEVICE_SLOW:
      if (world.alive(node)) {
        world.device(node).hold(world.paused(node));
        world.device(node).slow_down(1);
      }
      return;
    case Fault::DROP_BULK:
    case Fault::CORRUPT_BULK:
      world.spoil_bulk(node, peer, transport::Fate::kDeliver);
      return;
    case Fault::SLOW_LINK:
      world.slow_link(node, peer, Nanos{0});
      return;
    case Fault::STORE_AWAY:
      world.take_store_away(false);
      return;
    case Fault::CLOCK_DRIFT:
      world.drift_clock(node, 0);
      return;
    case Fault::KV_AWAY:
    case Fault::KV_FULL:
    case Fault::KV_READ_ONLY:
      world.set_mount(node, Mount::kWorks);
      return;
    case Fault::KV_HANG:
      world.hang_disk(node, false);
      return;
    case Fault::KV_SLOW:
      world.slow_disk(node, Nanos{0});
      return;
    case Fault::WALL_JUMP:
      world.set_wall(node, milliseconds(0));
      return;
    case Fault::RESET:
    case Fault::END_PART:
    case Fault::DEVICE_FAIL:
    case Fault::STORM:
    case Fault::KV_FLIP:
    case Fault::KV_TRUNCATE:
    case Fault::KV_SWAP:
      return;
  }
}

}  // namespace

namespace {

// Where there is a store, half of the faults are its own.
Fault::Kind draw_kind(const scenario::RandomFaults& random,
                      const Breakable& there,
                      std::mt19937_64& seed) {
  if (random.kind_size() > 0) {
    return random.kind(static_cast<int>(seed() % static_cast<std::uint64_t>(random.kind_size())));
  }
  return there.has_store && seed() % 2 == 0 ? pick(kStoreKinds, seed) : pick(kAllKinds, seed);
}

// Hours: about as many as a block lives.
std::int64_t draw_count(Fault::Kind kind, std::mt19937_64& seed) {
  const auto count = static_cast<std::int64_t>(1 + seed() % 20);
  const bool has_sign = kind == Fault::CLOCK_DRIFT || kind == Fault::WALL_JUMP;
  const std::int64_t sign = has_sign && seed() % 2 == 0 ? -1 : 1;
  return sign * count * (kind == Fault::WALL_JUMP ? 20 : 1);
}

}  // namespace

std::vector<Fault> draw_faults(const scenario::RandomFaults& random,
                               const Breakable& there,
                               std::mt19937_64& seed) {
  const auto nodes = there.nodes.size();
  std::vector<Fault> faults;
  for (int i = 0; i < random.count(); ++i) {
    Fault fault;
    fault.set_kind(draw_kind(random, there, seed));
    const auto node = static_cast<std::uint32_t>(seed() % nodes);
    fault.set_node(node);
    fault.set_peer(
        nodes < 2 ? node : static_cast<std::uint32_t>((node + 1 + seed() % (nodes - 1)) % nodes));
    fault.set_at_ms(static_cast<std::int64_t>(
        seed() % static_cast<std::uint64_t>(std::max<std::int64_t>(1, random.within_ms()))));
    fault.set_for_ms(
        static_cast<std::int64_t>(seed() % 4 == 0 ? 1'200 + seed() % 2'000 : 10 + seed() % 700));
    fault.set_count(draw_count(fault.kind(), seed));
    fault.set_part(pick(parts_of(there, node), seed));
    faults.push_back(std::move(fault));
  }
  return faults;
}

Result<void> check_fault(const Fault& fault, const Breakable& there) {
  if (!fault.has_kind()) {
    return fail(Code::kMisconfigured, "fault: name its kind");
  }
  if (is_of_store(fault.kind()) && !there.has_store) {
    return refuse(fault, "the nodes keep no KV; add store { } to the scenario");
  }
  TRY_VOID(check_amounts(fault));
  TRY_VOID(check_place(fault, there.nodes));
  return check_part(fault, there);
}

void schedule_fault(World& world, const Fault& fault, std::map<std::string, std::int64_t>& counts) {
  world.timeline().after(milliseconds(fault.at_ms()), [&world, &counts, fault] {
    ++counts[scenario::Fault::Kind_Name(fault.kind())];
    begin(world, fault);
    world.timeline().after(milliseconds(fault.for_ms()), [&world, fault] { end(world, fault); });
  });
}

}  // namespace shoal::sim
