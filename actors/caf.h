// The only seam to CAF (0.17.6): typed interfaces, sending, timers, monitors, and the actor system
// as a port.
//
// Rules that hold through it: no untyped sends, no requests without a finite timeout, no detached
// actors, no time but the clock port. Messages are plain structs of interfaces.h; nothing of CAF's
// own serialisation is used.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <caf/all.hpp>

#include "schemas/units.h"

namespace shoal {

namespace seam {

template <class Signature>
struct OneWay;

template <class... Args>
struct OneWay<void(Args...)> {
  using type = typename caf::replies_to<Args...>::template with<void>;
};

}  // namespace seam

// A typed actor whose messages are all one-way: Interface<void(Submit), void(CloseRequest)>.
// Answers are messages of their own, so no caller ever waits for a part that is gone.
template <class... Signatures>
using Interface = caf::typed_actor<typename seam::OneWay<Signatures>::type...>;

// From an actor or any thread; no reply can come back. A handle that was never set (a part not
// wired yet) drops the message.
template <class Actor, class Message>
void notify(const Actor& actor, Message&& message) {
  if (actor) {
    caf::anon_send(actor, std::forward<Message>(message));
  }
}

template <class Self, class Message>
void send_after(Self* self, Nanos delay, Message&& message) {
  self->delayed_send(self,
                     std::chrono::duration_cast<std::chrono::nanoseconds>(delay),
                     std::forward<Message>(message));
}

// Ends an actor; its state and what waits in its mailbox are destroyed.
template <class Actor>
void end_actor(const Actor& actor) {
  if (actor) {
    caf::anon_send_exit(actor, caf::exit_reason::kill);
  }
}

// Calls back once, on the thread that ends the actor; at once if it has ended.
template <class Actor>
void when_ended(const Actor& actor, std::function<void()> ended) {
  actor->attach_functor([ended = std::move(ended)](const caf::error&) { ended(); });
}

// Calls back once per monitored actor that ended, on the monitoring actor. Part of that actor's
// state.
template <class Tag>
class Monitors {
 public:
  using OnDown = std::function<void(Tag, const std::string& reason)>;

  void start(caf::scheduled_actor* self, OnDown on_down) {
    self_ = self;
    self->set_down_handler([this, on_down = std::move(on_down)](caf::down_msg& down) {
      const auto watched = watched_.find(down.source);
      if (watched != watched_.end()) {
        const Tag tag = watched->second;
        watched_.erase(watched);
        on_down(tag, self_->home_system().render(down.reason));
      }
    });
  }

  template <class Actor>
  void watch(const Actor& actor, Tag tag) {
    self_->monitor(actor);
    watched_.emplace(caf::actor_cast<caf::actor_addr>(actor), tag);
  }

  // An end that is expected is not called back.
  template <class Actor>
  void forget(const Actor& actor) {
    if (actor && watched_.erase(caf::actor_cast<caf::actor_addr>(actor)) > 0) {
      self_->demonitor(caf::actor_cast<caf::actor_addr>(actor));
    }
  }

 private:
  caf::scheduled_actor* self_ = nullptr;
  std::map<caf::actor_addr, Tag> watched_;
};

// The actor system as a port: threads in production, CAF's virtual-time scheduler in tests and
// simulation.
class ActorRuntime {
 public:
  virtual ~ActorRuntime() = default;
  virtual caf::actor_system& system() = 0;
  // Waits until no actor is left or `limit` passed. False: some are left.
  virtual bool wait_until_empty(Nanos limit) = 0;
};

}  // namespace shoal
