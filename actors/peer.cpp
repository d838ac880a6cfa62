// States of a link: none, dialing, greeting (hello sent), linked (hello received: control may
// pass), open (ready sent and received: work may pass).
#include "actors/peer.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "actors/delivery.h"
#include "actors/proxies.h"
#include "schemas/wire.pb.h"

namespace shoal {
namespace {

constexpr Nanos kFirstRedial = std::chrono::milliseconds(20);

struct Runs {
  const std::string& node;
  const std::string& identity;

  // Enough of a digest to tell two apart.
  std::string text() const { return node + " (" + identity.substr(0, 12) + ")"; }
};

// Empty: it is the same, or one of them does not say.
std::string another(const char* what, const Runs& them, const Runs& us) {
  if (them.identity.empty() || us.identity.empty() || them.identity == us.identity) {
    return {};
  }
  return "node " + them.text() + " runs another " + what + " than node " + us.text() +
         ": give all nodes the same device and the same files in model.path";
}

// One life of the link.
struct Session {
  LinkPtr link;
  std::uint64_t id = 0;
  Instant heard;
  std::optional<IncarnationId> incarnation;  // of the other side, from its hello
  IncarnationId mine;                        // as this side said in its hello
  bool ready_sent = false;
  bool ready_received = false;
  SupervisorActor supervisor;
  MembershipActor membership;
  NodeParts parts;  // once open
  bool open = false;
  bool wired = false;          // the node's parts know of it
  bool told_draining = false;  // by this side
  bool is_draining = false;    // the other side
  // Came before that, with its size on the link; bounded by the credit.
  std::deque<std::pair<wire::Envelope, std::size_t>> before;

  std::size_t on_the_way = 0;  // bytes sent, no credit for them yet
  std::deque<std::string> waiting;
  std::size_t waiting_bytes = 0;
  std::size_t handled = 0;  // bytes received, not credited yet
};

struct Peer {
  static inline const char* name = "peer";

  PeerActor::pointer self = nullptr;
  ContextPtr node;
  SupervisorActor supervisor;
  NodeId remote;
  WiringPtr wiring = std::make_shared<const Wiring>();
  ViewPtr view;
  std::optional<Session> session;
  std::uint64_t last_id = 0;
  bool dialing = false;
  Instant redial_at{};
  Nanos redial_wait = kFirstRedial;
  bool leaves = false;  // this node, as it was told to

  ~Peer();

  void tick();
  void rewire(const Rewire& message);
  void see(const PeerView& message);
  void link_up(const LinkUp& message);
  void dial_failed(const DialFailed& message);
  void bytes(const LinkBytes& message);
  void send(const Outgoing& message);
  void lose(const std::string& reason);
  void tell_lost(const Session& lost, const std::string& reason) const;

  const ClusterContext& cluster() const { return *node->cluster; }

  bool current(std::uint64_t id) const { return session && session->id == id; }

  bool may_dial() const;
  Nanos last_redial() const;
  void dial();
  void frame(const wire::Frame& frame, std::size_t size);
  std::string difference(const wire::Hello& hello) const;
  void hello(const wire::Hello& hello);
  void greet();
  void agree();
  void open();
  void tell_draining();
  void drains();
  void refuse(const LinkPtr& link, const std::string& reason) const;
  void write(const wire::Frame& frame);
  void write_under_credit(std::string bytes);
  void credit(std::size_t bytes);
  void envelope(const wire::Envelope& envelope, std::size_t size);
  void handled(std::size_t size);
  void give_credit();
  void deliver(const wire::Envelope& envelope);
};

Peer::~Peer() {
  if (session) {
    leaves = node->draining;
    lose("the peer actor ends");
  }
}

void Peer::tick() {
  const Instant now = node->now();
  const HealthLimits& limits = node->options.health;
  if (session) {
    wire::Frame ping;
    ping.set_ping(true);
    write(ping);
    give_credit();
    if (now - session->heard > limits.heartbeat * limits.dead) {
      lose("it was silent for too long");
    }
  }
  if (!session && !dialing && may_dial() && now >= redial_at) {
    dial();
  }
}

// Everybody dials the owner; else the later node in the topology dials the earlier.
bool Peer::may_dial() const {
  const NodeId self_id = cluster().self;
  if (remote == cluster().topology.owner) {
    return true;
  }
  return self_id != cluster().topology.owner && self_id > remote && view != nullptr &&
         view->find(remote) != nullptr;
}

// An owner that was away waits for its members for as long as `dead`: each must have dialed by
// then.
Nanos Peer::last_redial() const {
  const HealthLimits& limits = node->options.health;
  return limits.heartbeat * limits.dead / 2;
}

void Peer::dial() {
  dialing = true;
  const HealthLimits& limits = node->options.health;
  const Instant due = node->now() + limits.heartbeat * limits.dead;
  cluster().links->dial(
      remote, due, [peer = caf::actor_cast<PeerActor>(self)](Result<LinkPtr> link) {
        if (link) {
          notify(peer, LinkUp{*std::move(link)});
        } else {
          notify(peer, DialFailed{std::move(link.error())});
        }
      });
}

void Peer::dial_failed(const DialFailed& message) {
  dialing = false;
  redial_at = node->now() + redial_wait;
  redial_wait = std::min(redial_wait * 2, last_redial());
  node->log.event(
      LogLevel::kDebug,
      "peer.dial_failed",
      {{"node", cluster().topology.nodes[remote.value].name}, {"reason", message.error.message}});
}

void Peer::link_up(const LinkUp& message) {
  dialing = false;
  if (session) {
    const HealthLimits& limits = node->options.health;
    if (node->now() - session->heard <= limits.heartbeat * limits.suspect) {
      refuse(message.link, "another link of this node is alive");
      return;
    }
    lose("it was silent, and another link came");
  }
  session.emplace();
  session->link = message.link;
  session->id = ++last_id;
  session->heard = node->now();
  const PeerActor peer = caf::actor_cast<PeerActor>(self);
  session->link->start({[peer, id = session->id](std::string bytes) {
                          notify(peer, LinkBytes{id, std::move(bytes)});
                        },
                        [peer, id = session->id](Error error) {
                          notify(peer, LinkLost{id, std::move(error)});
                        }});
  greet();
}

void Peer::greet() {
  session->mine = IncarnationId{cluster().incarnation};
  wire::Frame frame;
  wire::Hello& hello = *frame.mutable_hello();
  hello.set_version(kLinkVersion);
  hello.set_cluster(cluster().topology.hash);
  hello.set_node(cluster().self.value);
  hello.set_incarnation(session->mine.value);
  hello.set_model(cluster().identity.model);
  hello.set_numeric(cluster().identity.numeric);
  write(frame);
  tell_draining();
}

void Peer::bytes(const LinkBytes& message) {
  if (!current(message.link)) {
    return;
  }
  session->heard = node->now();
  wire::Frame parsed;
  if (message.bytes.size() > cluster().limits.message ||
      !parsed.ParseFromArray(message.bytes.data(), static_cast<int>(message.bytes.size()))) {
    lose("it sent what is not a frame");
    return;
  }
  frame(parsed, message.bytes.size());
}

void Peer::frame(const wire::Frame& frame, std::size_t size) {
  switch (frame.is_case()) {
    case wire::Frame::kHello:
      hello(frame.hello());
      return;
    case wire::Frame::kReady:
      session->ready_received = true;
      agree();
      return;
    case wire::Frame::kCredit:
      credit(frame.credit());
      return;
    case wire::Frame::kPing:
      return;
    case wire::Frame::kEnvelope:
      envelope(frame.envelope(), size);
      return;
    case wire::Frame::kRefusal:
      lose("refused: " + frame.refusal());
      return;
    case wire::Frame::kDraining:
      drains();
      return;
    case wire::Frame::kNoted:
      notify(supervisor, DrainKnown{remote, session->id});
      return;
    case wire::Frame::IS_NOT_SET:
      return;  // a kind of a later version
  }
}

// Empty: both may be in one cluster.
std::string Peer::difference(const wire::Hello& hello) const {
  if (hello.version() != kLinkVersion) {
    return "version " + std::to_string(hello.version()) + " of the link, this node has " +
           std::to_string(kLinkVersion) + ": run the same release on all nodes";
  }
  if (hello.cluster() != cluster().topology.hash) {
    return "another topology: give all nodes the same file";
  }
  if (hello.node() != remote.value) {
    return "node " + std::to_string(hello.node()) + " answers in its place: check its address";
  }
  const ModelIdentity& mine = cluster().identity;
  const std::string& us = cluster().topology.nodes[cluster().self.value].name;
  const std::string& them = cluster().topology.nodes[remote.value].name;
  const std::string other = another("model", {them, hello.model()}, {us, mine.model});
  return other.empty() ? another("arithmetic", {them, hello.numeric()}, {us, mine.numeric}) : other;
}

void Peer::hello(const wire::Hello& hello) {
  if (const std::string wrong = difference(hello); !wrong.empty()) {
    node->log.event(LogLevel::kWarning,
                    "peer.refused",
                    {{"node", cluster().topology.nodes[remote.value].name}, {"reason", wrong}});
    refuse(session->link, wrong);
    lose(wrong);
    return;
  }
  session->incarnation = IncarnationId{hello.incarnation()};
  redial_wait = kFirstRedial;
  const ProxySeat seat{node, caf::actor_cast<PeerActor>(self), session->id};
  session->supervisor = spawn_supervisor_proxy(self->home_system(), seat);
  if (remote == cluster().topology.owner) {
    session->membership = spawn_membership_proxy(self->home_system(), seat);
  }
  notify(supervisor, PeerLinked{remote, session->id, session->supervisor, session->membership});
  agree();
}

// The other side may be quicker: what it sends waits until all parts here know the session.
void Peer::rewire(const Rewire& message) {
  wiring = message.wiring;
  tell_draining();
  if (!session || !session->open || wiring->at(remote).link != session->id) {
    return;
  }
  session->wired = true;
  for (const auto& [early, size] : std::exchange(session->before, {})) {
    deliver(early);
    handled(size);
    if (!session) {
      return;
    }
  }
}

void Peer::see(const PeerView& message) {
  view = message.view;
  if (session) {
    agree();
  }
  tick();
}

// Opens the session when both sides are members and know it of each other; ends it when one is not.
void Peer::agree() {
  if (!session->incarnation || view == nullptr) {
    return;
  }
  const bool both =
      view->has(remote, *session->incarnation) && view->has(cluster().self, session->mine);
  if (!both) {
    if (session->ready_sent) {
      lose("it left the view");
    }
    return;
  }
  if (!session->ready_sent) {
    session->ready_sent = true;
    wire::Frame frame;
    frame.set_ready(view->find(cluster().self)->joined.value);
    write(frame);
  }
  if (session->ready_received && !session->open) {
    open();
  }
}

void Peer::open() {
  session->open = true;
  const ProxySeat seat{node, caf::actor_cast<PeerActor>(self), session->id};
  session->parts = spawn_proxies(self->home_system(), seat, cluster().topology.nodes[remote.value]);
  node->log.event(
      LogLevel::kInfo, "peer.up", {{"node", cluster().topology.nodes[remote.value].name}});
  session->parts.draining = session->is_draining;
  notify(supervisor, PeerUp{remote, session->id, session->parts});
}

// A node must not end before the others know: they would take its end for a loss, and what they
// sent last would be lost.
void Peer::tell_draining() {
  if (session && node->draining && !session->told_draining) {
    session->told_draining = true;
    wire::Frame frame;
    frame.set_draining(true);
    write(frame);
  }
}

void Peer::drains() {
  session->is_draining = true;
  notify(supervisor, PeerDrains{remote, session->id});
  wire::Frame frame;
  frame.set_noted(true);
  write(frame);
}

void Peer::refuse(const LinkPtr& link, const std::string& reason) const {
  wire::Frame frame;
  frame.set_refusal(reason);
  link->start({[](const std::string&) {}, [](const Error&) {}});
  link->send(frame.SerializeAsString());
  link->close();
}

// Everything pending is lost with the session: its proxies end, and the supervisor tells all parts.
void Peer::lose(const std::string& reason) {
  const Session lost = *std::exchange(session, std::nullopt);
  node->metrics.link_waiting -= static_cast<std::int64_t>(lost.waiting_bytes);
  lost.link->close();
  end_actor(lost.supervisor);
  end_actor(lost.membership);
  end_proxies(lost.parts);
  redial_at = node->now() + redial_wait;
  redial_wait = std::min(redial_wait * 2, last_redial());
  tell_lost(lost, reason);
  notify(supervisor, PeerDown{remote, lost.id, reason, lost.is_draining});
}

// That a node ends as it was told to is no loss.
void Peer::tell_lost(const Session& lost, const std::string& reason) const {
  const std::string& name = cluster().topology.nodes[remote.value].name;
  if (lost.is_draining) {
    node->log.event(LogLevel::kInfo, "peer.left", {{"node", name}, {"reason", reason}});
    return;
  }
  const bool is_loss = lost.open && !leaves;
  node->metrics.links_lost += is_loss ? 1 : 0;
  node->log.event(is_loss ? LogLevel::kWarning : LogLevel::kDebug,
                  "peer.down",
                  {{"node", name}, {"open", lost.open}, {"reason", reason}});
}

void Peer::write(const wire::Frame& frame) {
  session->link->send(frame.SerializeAsString());
}

void Peer::send(const Outgoing& message) {
  if (!current(message.link)) {
    return;  // of a session that is over: whoever sent it hears of the loss
  }
  wire::Frame frame;
  wire::Envelope& out = *frame.mutable_envelope();
  out.set_role(message.role);
  out.set_instance(message.instance);
  out.set_kind(message.kind);
  const Member* me = view == nullptr ? nullptr : view->find(cluster().self);
  out.set_epoch(me == nullptr ? 0 : me->joined.value);
  out.set_body(message.body);
  std::string bytes = frame.SerializeAsString();
  if (bytes.size() > cluster().limits.message) {
    node->log.event(
        LogLevel::kError,
        "peer.message_too_large",
        {{"kind", message.kind}, {"bytes", bytes.size()}, {"limit", cluster().limits.message}});
    return;  // covered as every lost message is: by the attempt and its deadline
  }
  write_under_credit(std::move(bytes));
}

void Peer::write_under_credit(std::string bytes) {
  const LinkLimits& limits = cluster().limits;
  if (session->on_the_way == 0 || session->on_the_way + bytes.size() <= limits.window) {
    session->on_the_way += bytes.size();
    session->link->send(std::move(bytes));
    return;
  }
  session->waiting_bytes += bytes.size();
  node->metrics.link_waiting += static_cast<std::int64_t>(bytes.size());
  session->waiting.push_back(std::move(bytes));
  if (session->waiting_bytes > limits.queue) {
    lose("it does not keep up: " + std::to_string(limits.queue) + " bytes wait for it");
  }
}

void Peer::credit(std::size_t bytes) {
  session->on_the_way -= std::min(bytes, session->on_the_way);
  while (!session->waiting.empty() &&
         (session->on_the_way == 0 ||
          session->on_the_way + session->waiting.front().size() <= cluster().limits.window)) {
    std::string next = std::move(session->waiting.front());
    session->waiting.pop_front();
    session->waiting_bytes -= next.size();
    node->metrics.link_waiting -= static_cast<std::int64_t>(next.size());
    session->on_the_way += next.size();
    session->link->send(std::move(next));
  }
}

void Peer::envelope(const wire::Envelope& envelope, std::size_t size) {
  const bool control = is_control(envelope);
  const Member* member = view == nullptr ? nullptr : view->find(remote);
  const bool valid = control ? session->incarnation.has_value()
                             : session->ready_sent && member != nullptr &&
                                   envelope.epoch() == member->joined.value;
  if (valid && !control && !session->wired) {
    session->before.emplace_back(envelope, size);
    return;
  }
  if (valid) {
    deliver(envelope);
  } else {
    ++node->metrics.envelopes_fenced;
    node->log.event(
        LogLevel::kDebug,
        "peer.fenced",
        {{"node", cluster().topology.nodes[remote.value].name}, {"kind", envelope.kind()}});
  }
  handled(size);
}

void Peer::handled(std::size_t size) {
  if (!session) {
    return;
  }
  session->handled += size;
  if (session->handled >= cluster().limits.window / 4) {
    give_credit();
  }
}

void Peer::give_credit() {
  if (session->handled > 0) {
    wire::Frame frame;
    frame.set_credit(std::exchange(session->handled, 0));
    write(frame);
  }
}

void Peer::deliver(const wire::Envelope& envelope) {
  const Result<bool> taken = shoal::deliver(envelope, {supervisor, *wiring}, node->now());
  if (!taken) {
    lose(taken.error().message);
  } else if (!*taken) {
    node->log.event(LogLevel::kDebug,
                    "peer.unknown_kind",
                    {{"role", envelope.role()}, {"kind", envelope.kind()}});
  }
}

PeerActor::behavior_type peer(PeerActor::stateful_pointer<Peer> self,
                              ContextPtr node,
                              SupervisorActor supervisor,
                              NodeId remote) {
  Peer& state = self->state;
  state.self = self;
  state.node = std::move(node);
  state.supervisor = std::move(supervisor);
  state.remote = remote;
  send_after(self, Nanos{0}, Tick{});
  return {
      [self](const Rewire& m) { self->state.rewire(m); },
      [self](const Tick&) {
        self->state.tick();
        send_after(self, self->state.node->options.health.heartbeat, Tick{});
      },
      [self](const PeerView& m) { self->state.see(m); },
      [self](const ResetLink& m) {
        if (self->state.session) {
          self->state.lose(m.reason);
        }
      },
      [self](const LinkUp& m) { self->state.link_up(m); },
      [self](const DialFailed& m) { self->state.dial_failed(m); },
      [self](const LinkBytes& m) { self->state.bytes(m); },
      [self](const LinkLost& m) {
        if (self->state.current(m.link)) {
          self->state.lose(m.error.message);
        }
      },
      [self](const Outgoing& m) { self->state.send(m); },
  };
}

}  // namespace

PeerActor spawn_peer(caf::actor_system& system,
                     ContextPtr node,
                     SupervisorActor supervisor,
                     NodeId remote) {
  return system.spawn(peer, std::move(node), std::move(supervisor), remote);
}

}  // namespace shoal
