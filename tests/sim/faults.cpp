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

std::vector<std::string> parts_of(const NodeRoles& roles, std::uint32_t node, std::size_t nodes) {
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
  if (node == 0) {
    parts.emplace_back("membership");
  }
  for (std::uint32_t other = 0; other < nodes; ++other) {
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
         kind == Fault::CLOCK_DRIFT;
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

Result<void> check_part(const Fault& fault, const std::vector<NodeRoles>& nodes) {
  if (fault.kind() != Fault::END_PART) {
    return {};
  }
  const NodeRoles& roles = nodes[fault.node()];
  auto parts = parts_of(roles, fault.node(), nodes.size());
  if (roles.gateway) {
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
  if ((kind == Fault::DEVICE_FAIL || kind == Fault::SLOW_LINK) && fault.count() < 1) {
    return refuse(fault, "count: expected 1 or more");
  }
  if (kind == Fault::DEVICE_SLOW && fault.count() < 2) {
    return refuse(fault, "count: expected 2 or more, steps take that many times longer");
  }
  if (kind == Fault::CLOCK_DRIFT && fault.count() == 0) {
    return refuse(fault, "count: expected ms a second, other than 0");
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
         kind == Fault::STORM;
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
    case Fault::RESET:
    case Fault::END_PART:
    case Fault::DEVICE_FAIL:
    case Fault::STORM:
      return;
  }
}

}  // namespace

std::vector<Fault> draw_faults(const scenario::RandomFaults& random,
                               const std::vector<NodeRoles>& nodes,
                               std::mt19937_64& seed) {
  std::vector<Fault> faults;
  for (int i = 0; i < random.count(); ++i) {
    Fault fault;
    fault.set_kind(
        random.kind_size() > 0
            ? random.kind(static_cast<int>(seed() % static_cast<std::uint64_t>(random.kind_size())))
            : pick(kAllKinds, seed));
    const auto node = static_cast<std::uint32_t>(seed() % nodes.size());
    fault.set_node(node);
    fault.set_peer(nodes.size() < 2 ? node
                                    : static_cast<std::uint32_t>(
                                          (node + 1 + seed() % (nodes.size() - 1)) % nodes.size()));
    fault.set_at_ms(static_cast<std::int64_t>(
        seed() % static_cast<std::uint64_t>(std::max<std::int64_t>(1, random.within_ms()))));
    fault.set_for_ms(
        static_cast<std::int64_t>(seed() % 4 == 0 ? 1'200 + seed() % 2'000 : 10 + seed() % 700));
    fault.set_count(static_cast<std::int64_t>(1 + seed() % 20));
    if (fault.kind() == Fault::CLOCK_DRIFT && seed() % 2 == 0) {
      fault.set_count(-fault.count());
    }
    fault.set_part(pick(parts_of(nodes[node], node, nodes.size()), seed));
    faults.push_back(std::move(fault));
  }
  return faults;
}

Result<void> check_fault(const Fault& fault, const std::vector<NodeRoles>& nodes) {
  if (!fault.has_kind()) {
    return fail(Code::kMisconfigured, "fault: name its kind");
  }
  TRY_VOID(check_amounts(fault));
  TRY_VOID(check_place(fault, nodes));
  return check_part(fault, nodes);
}

void schedule_fault(World& world, const Fault& fault, std::map<std::string, std::int64_t>& counts) {
  world.timeline().after(milliseconds(fault.at_ms()), [&world, &counts, fault] {
    ++counts[scenario::Fault::Kind_Name(fault.kind())];
    begin(world, fault);
    world.timeline().after(milliseconds(fault.for_ms()), [&world, fault] { end(world, fault); });
  });
}

}  // namespace shoal::sim
