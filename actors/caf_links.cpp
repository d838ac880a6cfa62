// How two ends find each other: the dialing end asks CAF for the other port's hub, and says hello
// to it; the hub makes the accepting end, which says welcome. From then on they speak to each other
// alone and watch each other. CAF delivers in order between two actors.
//
// CAF's heartbeats only close what is dead below the links: a stopped process, a port that accepts
// and says nothing. Peers ping their links themselves, and sooner.
#include "actors/caf_links.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <caf/detail/get_process_id.hpp>
#include <caf/io/all.hpp>

#include "actors/actor_wait.h"
#include "actors/caf.h"

namespace shoal {
namespace {

// What a CAF node is called comes from the machine and this number (0.17): two containers, or two
// ports in one process, would be taken for one node.
thread_local std::optional<std::uint32_t> process_of_next_system;

}  // namespace
}  // namespace shoal

namespace caf::detail {

// In the place of the library's own.
unsigned get_process_id() {
  return shoal::process_of_next_system.value_or(static_cast<std::uint32_t>(::getpid()));
}

}  // namespace caf::detail

namespace shoal {
namespace links {

constexpr Nanos kStopLimit = std::chrono::seconds(2);
constexpr auto kHeartbeat = std::chrono::seconds(1);  // shorter ones cut off handshakes (0.17.6)
constexpr auto kSilence = std::chrono::seconds(5);    // then the connection is closed

// On the wire, as a plain number.
enum class Signal : std::uint32_t { kWelcome = 1, kBye = 2 };

// Local to their process, all of them.
struct StartEnd {
  LinkEvents events;
};

struct CloseEnd {};

// It has waited long enough: for the link while dialing, for the other end while closing.
struct EndDue {};

struct StartDial {
  NodeId to;
  Instant due;
  LinkPort::Dialed done;
};

struct Listen {
  LinkPort::Accept accept;
};

struct StopAll {};

}  // namespace links
}  // namespace shoal

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::links::StartEnd)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::links::CloseEnd)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::links::EndDue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::links::StartDial)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::links::Listen)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::links::StopAll)

namespace shoal {
namespace links {
namespace {

using Payload = std::vector<char>;

using EndActor =
    Interface<void(std::uint32_t), void(Payload), void(StartEnd), void(CloseEnd), void(EndDue)>;
// The number is the node that says hello.
using HubActor = Interface<void(std::uint32_t), void(Listen), void(StartDial), void(StopAll)>;

tl::unexpected<Error> failed(Code code, std::string why) {
  return tl::unexpected(Error{code, std::move(why)});
}

class CafLink final : public Link {
 public:
  CafLink(EndActor end, EndActor remote, std::shared_ptr<std::atomic<bool>> closed)
      : end_(std::move(end)),
        remote_(std::move(remote)),
        closed_(std::move(closed)) {}

  ~CafLink() override { close(); }

  void start(LinkEvents events) override { notify(end_, StartEnd{std::move(events)}); }

  void send(std::string bytes) override {
    if (!*closed_) {
      notify(remote_, Payload(bytes.begin(), bytes.end()));
    }
  }

  void close() override {
    if (!closed_->exchange(true)) {
      // By the same way as the bytes before it. The end of an actor can overtake them, so this one
      // waits for the other's.
      notify(remote_, static_cast<std::uint32_t>(Signal::kBye));
      notify(end_, CloseEnd{});
    }
  }

 private:
  EndActor end_;
  EndActor remote_;
  std::shared_ptr<std::atomic<bool>> closed_;
};

struct End {
  static inline const char* name = "link_end";

  EndActor::pointer self = nullptr;
  EndActor remote;  // null while dialing
  std::shared_ptr<std::atomic<bool>> closed = std::make_shared<std::atomic<bool>>(false);

  // While dialing.
  std::uint32_t me = 0;
  LinkPort::Dialed dialed;
  HubActor hub;

  // Once linked.
  std::optional<LinkEvents> events;
  std::vector<std::string> early;  // before start()
  std::optional<Error> lost_early;

  void dial(const TopologyNode& to, Nanos limit);
  void greet(const caf::strong_actor_ptr& published);
  void welcome(const EndActor& other);
  void give_up(Code code, const std::string& why);

  LinkPtr link_to(const EndActor& other);
  void start(const StartEnd& message);
  void received(const Payload& bytes);
  void lose(const std::string& why);
  void close();
  void due();
};

void End::dial(const TopologyNode& to, Nanos limit) {
  send_after(self, limit, EndDue{});
  self->request(self->home_system().middleman().actor_handle(),
                limit,
                caf::connect_atom::value,
                to.host,
                to.control_port)
      .then([this](const caf::node_id&,
                   const caf::strong_actor_ptr& published,
                   const std::set<std::string>&) { greet(published); },
            [this](const caf::error& error) {
              give_up(Code::kUnavailable, self->home_system().render(error));
            });
}

void End::greet(const caf::strong_actor_ptr& published) {
  if (published == nullptr) {
    give_up(Code::kUnavailable, "no node listens there");
    return;
  }
  // CAF may still have the hub of a process that is gone just now.
  hub = caf::actor_cast<HubActor>(published);
  self->monitor(hub);
  self->send(hub, me);
}

void End::welcome(const EndActor& other) {
  if (dialed) {
    self->demonitor(hub.address());
    hub = nullptr;
    std::exchange(dialed, nullptr)(link_to(other));
  }
}

void End::give_up(Code code, const std::string& why) {
  if (dialed) {
    std::exchange(dialed, nullptr)(failed(code, why));
    self->quit();
  }
}

LinkPtr End::link_to(const EndActor& other) {
  remote = other;
  self->monitor(remote);
  return std::make_shared<CafLink>(EndActor(self), remote, closed);
}

void End::start(const StartEnd& message) {
  events = message.events;
  for (std::string& bytes : std::exchange(early, {})) {
    if (!*closed) {
      events->received(std::move(bytes));
    }
  }
  if (lost_early) {
    lose(lost_early->message);
  }
}

void End::received(const Payload& bytes) {
  if (!events) {
    early.emplace_back(bytes.begin(), bytes.end());
  } else if (!*closed) {
    events->received(std::string(bytes.begin(), bytes.end()));
  }
}

void End::lose(const std::string& why) {
  if (!events && !*closed) {
    lost_early = Error{Code::kPeerLost, why};
    return;
  }
  if (!closed->exchange(true)) {
    events->lost(Error{Code::kPeerLost, why});
  }
  self->quit();
}

void End::close() {
  if (lost_early) {
    self->quit();
  } else {
    send_after(self, kSilence, EndDue{});
  }
}

void End::due() {
  if (dialed) {
    give_up(Code::kDeadline, "no answer");
  } else if (*closed) {
    self->quit();
  }
}

EndActor::behavior_type end_behavior(EndActor::stateful_pointer<End> self) {
  self->state.self = self;
  self->set_down_handler([self](const caf::down_msg& down) {
    const std::string why = self->home_system().render(down.reason);
    if (self->state.dialed) {
      self->state.give_up(Code::kUnavailable, why);
    } else if (down.source == self->state.remote.address()) {
      self->state.lose(why);
    }
  });
  return {
      [self](std::uint32_t signal) {
        if (signal == static_cast<std::uint32_t>(Signal::kWelcome)) {
          self->state.welcome(caf::actor_cast<EndActor>(self->current_sender()));
        } else if (signal == static_cast<std::uint32_t>(Signal::kBye)) {
          self->state.lose("the other side closed it");
        }
      },
      [self](const Payload& bytes) { self->state.received(bytes); },
      [self](const StartEnd& m) { self->state.start(m); },
      [self](const CloseEnd&) { self->state.close(); },
      [self](const EndDue&) { self->state.due(); },
  };
}

EndActor::behavior_type dialing_end(EndActor::stateful_pointer<End> self,
                                    std::uint32_t me,
                                    const TopologyNode& to,
                                    Nanos limit,
                                    LinkPort::Dialed done) {
  auto behavior = end_behavior(self);
  self->state.me = me;
  self->state.dialed = std::move(done);
  self->state.dial(to, limit);
  return behavior;
}

EndActor::behavior_type accepting_end(EndActor::stateful_pointer<End> self,
                                      const EndActor& dialer,
                                      NodeId from,
                                      const LinkPort::Accept& accept) {
  auto behavior = end_behavior(self);
  self->send(dialer, static_cast<std::uint32_t>(Signal::kWelcome));
  accept(from, self->state.link_to(dialer));
  return behavior;
}

// Owns the ends, so that they can all be ended.
struct Hub {
  static inline const char* name = "link_hub";

  HubActor::pointer self = nullptr;
  std::shared_ptr<const CafLinkParams> params;
  LinkPort::Accept accept;
  std::set<EndActor> ends;

  void hello(std::uint32_t from);
  void dial(const StartDial& message);
  void stop();
  void own(const EndActor& end);
};

void Hub::hello(std::uint32_t from) {
  const auto dialer = caf::actor_cast<EndActor>(self->current_sender());
  if (accept && dialer) {
    own(self->spawn(accepting_end, dialer, NodeId{from}, accept));
  }
}

void Hub::dial(const StartDial& message) {
  const Nanos limit = std::max(Nanos{1}, message.due - params->now());
  own(self->spawn(dialing_end,
                  params->self.value,
                  params->topology.nodes.at(message.to.value),
                  limit,
                  message.done));
}

void Hub::stop() {
  for (const EndActor& end : ends) {
    end_actor(end);
  }
  self->quit();
}

void Hub::own(const EndActor& end) {
  ends.insert(end);
  self->monitor(end);
}

HubActor::behavior_type hub(HubActor::stateful_pointer<Hub> self,
                            std::shared_ptr<const CafLinkParams> params) {
  self->state.self = self;
  self->state.params = std::move(params);
  self->set_down_handler([self](const caf::down_msg& down) {
    std::erase_if(self->state.ends,
                  [&down](const EndActor& end) { return end.address() == down.source; });
  });
  return {
      [self](std::uint32_t from) { self->state.hello(from); },
      [self](const Listen& m) { self->state.accept = m.accept; },
      [self](const StartDial& m) { self->state.dial(m); },
      [self](const StopAll&) { self->state.stop(); },
  };
}

// An actor system of its own: the node's stays without sockets.
struct Engine {
  struct Settings : caf::actor_system_config {
    Settings() {
      load<caf::io::middleman>();
      set("scheduler.policy", caf::atom("sharing"));
      set("scheduler.max-threads", std::size_t{2});
      set("scheduler.max-throughput", std::size_t{50});
      set("middleman.workers", std::size_t{1});
      // One without the other does nothing.
      set("middleman.heartbeat-interval", caf::timespan(kHeartbeat));
      set("middleman.connection-timeout", caf::timespan(kSilence));
    }
  };

  Settings settings;
  caf::actor_system system{settings};
};

std::unique_ptr<Engine> make_engine(std::uint32_t process) {
  process_of_next_system = process;
  auto engine = std::make_unique<Engine>();
  process_of_next_system.reset();
  return engine;
}

class CafLinks final : public LinkPort {
 public:
  explicit CafLinks(CafLinkParams params)
      : engine_(make_engine(params.process)),
        hub_(engine_->system.spawn(hub, std::make_shared<const CafLinkParams>(std::move(params)))) {
  }

  ~CafLinks() override {
    stop();
    hub_ = nullptr;
    destroy_engine();
  }

  caf::expected<std::uint16_t> publish(const TopologyNode& at) {
    constexpr bool kReuseAddress = true;  // a restarted node does not wait for the old connections
    return engine_->system.middleman().publish(
        caf::actor_cast<caf::actor>(hub_), at.control_port, at.host.c_str(), kReuseAddress);
  }

  std::string render(const caf::error& error) const { return engine_->system.render(error); }

  void listen(Accept accept) override { notify(hub_, Listen{std::move(accept)}); }

  void dial(NodeId to, Instant deadline, Dialed done) override {
    notify(hub_, StartDial{to, deadline, std::move(done)});
  }

  void stop() override {
    if (stopped_.exchange(true)) {
      return;
    }
    notify(hub_, StopAll{});
    if (!wait_until_empty(engine_->system, kStopLimit)) {
      engine_.release();  // it would wait for its actors without a limit
    }
  }

 private:
  // CAF 0.17 may wait for ever for its own dialing actor when a dial was on the way; the thread
  // that waits then ends with the process.
  void destroy_engine() {
    auto done = std::make_shared<std::promise<void>>();
    std::thread([engine = std::move(engine_), done]() mutable {
      engine.reset();
      done->set_value();
    }).detach();
    done->get_future().wait_for(kStopLimit);
  }

  std::unique_ptr<Engine> engine_;
  HubActor hub_;
  std::atomic<bool> stopped_{false};
};

}  // namespace
}  // namespace links

Result<std::unique_ptr<LinkPort>> open_caf_links(CafLinkParams params) {
  const TopologyNode here = params.topology.nodes.at(params.self.value);
  auto links = std::make_unique<links::CafLinks>(std::move(params));
  if (const auto port = links->publish(here); !port) {
    return fail(Code::kMisconfigured,
                "node " + here.name + ": control_port: cannot listen on " + here.host + ":" +
                    std::to_string(here.control_port) + " (" + links->render(port.error()) +
                    "); is the node running already?");
  }
  return links;
}

}  // namespace shoal
