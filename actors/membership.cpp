// One proposal at a time; a view exists once the store has taken it.
#include "actors/membership.h"

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "actors/wire_messages.h"

namespace shoal {
namespace {

struct Owner {
  static inline const char* name = "membership";

  ContextPtr node;
  MembershipActor me;
  std::optional<Membership> members;
  std::optional<std::uint64_t> version;  // of the store's record; none: to be read
  bool asking = false;                   // the store
  Instant looked{};                      // the last time this part ran
  std::map<NodeId, SupervisorActor> reachable;
  WiringPtr wiring = std::make_shared<const Wiring>();

  void start(ContextPtr context);
  void tick();
  void beat(const NodeBeat& message);
  void linked(const NodeLinked& message);
  void unlinked(const NodeUnlinked& message);
  void read(const RecordRead& message);
  void written(const RecordWritten& message);

  Instant store_due() const;
  void ask();
  void tell(const SupervisorActor& supervisor) const;
  void tell_all() const;
};

void Owner::start(ContextPtr context) {
  node = std::move(context);
  const HealthLimits& limits = node->options.health;
  members.emplace(MembershipLimits{limits.heartbeat, limits.suspect, limits.dead});
  looked = node->now();
}

Instant Owner::store_due() const {
  return node->now() + std::chrono::seconds(2);
}

void Owner::tick() {
  const HealthLimits& limits = node->options.health;
  const Instant now = node->now();
  const Nanos away = now - std::exchange(looked, now);
  if (away > limits.heartbeat * limits.suspect) {
    members->was_away(now);
    node->log.event(LogLevel::kWarning, "membership.was_away", {{"ns", away}});
  }
  if (!asking) {
    ask();
  }
}

void Owner::ask() {
  transport::ClusterStore& store = *node->cluster->store;
  if (!version) {
    asking = true;
    store.read(store_due(), [owner = me](Result<transport::ClusterRecord> record) {
      notify(owner, RecordRead{std::move(record)});
    });
    return;
  }
  auto next = members->next(node->now());
  if (!next) {
    return;
  }
  asking = true;
  auto view = std::make_shared<const View>(*std::move(next));
  store.compare_and_swap(*version,
                         wire_codec::encode(*view),
                         store_due(),
                         [owner = me, view](Result<std::optional<std::uint64_t>> outcome) {
                           notify(owner, RecordWritten{view, std::move(outcome)});
                         });
}

void Owner::read(const RecordRead& message) {
  asking = false;
  if (!message.record) {
    node->log.event(
        LogLevel::kError, "membership.store_failed", {{"reason", message.record.error().message}});
    return;  // the next tick asks again
  }
  View view;
  if (message.record->version != 0) {
    auto stored = wire_codec::decode_view(message.record->bytes);
    if (!stored) {
      node->log.event(
          LogLevel::kError, "membership.store_failed", {{"reason", stored.error().message}});
      return;
    }
    view = *std::move(stored);
  }
  version = message.record->version;
  const EpochId before = members->view().epoch;
  members->restore(std::move(view), node->now());
  members->unlinked(node->cluster->self, node->now());  // an earlier life of this node is over
  if (members->view().epoch > before) {
    tell_all();  // it was written, but the store's answer was lost
  }
}

void Owner::written(const RecordWritten& message) {
  asking = false;
  if (!message.version || !*message.version) {
    version.reset();  // unknown, or somebody else's
    node->log.event(LogLevel::kWarning,
                    "membership.not_published",
                    {{"epoch", message.view->epoch},
                     {"reason",
                      message.version ? std::string("another owner wrote first")
                                      : message.version.error().message}});
    return;
  }
  version = **message.version;
  members->publish(*message.view);
  node->log.event(LogLevel::kInfo,
                  "membership.view",
                  {{"epoch", message.view->epoch}, {"members", message.view->members.size()}});
  tell_all();
}

void Owner::tell_all() const {
  for (const auto& [id, supervisor] : reachable) {
    tell(supervisor);
  }
}

void Owner::tell(const SupervisorActor& supervisor) const {
  notify(supervisor, ViewPublished{std::make_shared<const View>(members->view())});
}

void Owner::beat(const NodeBeat& message) {
  if (message.node.value >= node->cluster->topology.nodes.size()) {
    return;
  }
  members->heard(message.node, message.incarnation, node->now());
  notify(wiring->autoscaler, message);
  if (const auto known = reachable.find(message.node);
      known != reachable.end() && message.epoch < members->view().epoch) {
    tell(known->second);
  }
  tick();
}

void Owner::linked(const NodeLinked& message) {
  reachable[message.node] = message.supervisor;
  members->linked(message.node);
  tell(message.supervisor);
}

void Owner::unlinked(const NodeUnlinked& message) {
  reachable.erase(message.node);
  if (message.left) {
    members->left(message.node, node->now());
  } else {
    members->unlinked(message.node, node->now());
  }
}

MembershipActor::behavior_type membership(MembershipActor::stateful_pointer<Owner> self,
                                          ContextPtr node) {
  self->state.start(std::move(node));
  self->state.me = self;
  send_after(self, Nanos{0}, Tick{});
  return {
      [self](const Rewire& m) { self->state.wiring = m.wiring; },
      [self](const Tick&) {
        self->state.tick();
        send_after(self, self->state.node->options.health.heartbeat, Tick{});
      },
      [self](const NodeBeat& m) { self->state.beat(m); },
      [self](const NodeLinked& m) { self->state.linked(m); },
      [self](const NodeUnlinked& m) { self->state.unlinked(m); },
      [self](const RecordRead& m) { self->state.read(m); },
      [self](const RecordWritten& m) { self->state.written(m); },
  };
}

}  // namespace

MembershipActor spawn_membership(caf::actor_system& system, ContextPtr node) {
  return system.spawn(membership, std::move(node));
}

}  // namespace shoal
