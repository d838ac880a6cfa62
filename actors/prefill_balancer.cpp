// Queues one length class and hands its requests to the group, a bounded number ahead of their
// admission.
#include "actors/prefill_balancer.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

namespace shoal {
namespace {

struct PrefillBalancer {
  static inline const char* name = "prefill_balancer";

  PartSeat seat;
  std::size_t length_class = 0;
  std::deque<PlacementPtr> queue;
  PrefillLoad load;              // the group's last report
  std::deque<Nanos> on_the_way;  // work sent that the report does not contain yet
  std::uint64_t sent = 0;

  void place(const PlacePrefill& message);
  void release(const ReleaseAttempt& message);
  void report(const PrefillLoad& message);
  void rewire(const Rewire& message);

  void dispatch();
  PrefillInstance group() const;
  void refuse(const AttemptKey& key);
};

void PrefillBalancer::place(const PlacePrefill& message) {
  if (queue.size() >= seat.node->options.prefill_queue) {
    refuse(message.placement->key());
    return;
  }
  queue.push_back(message.placement);
  dispatch();
}

void PrefillBalancer::refuse(const AttemptKey& key) {
  Nanos backlog = group().backlog;
  for (const PlacementPtr& waiting : queue) {
    backlog += waiting->work;
  }
  notify(seat.wiring->router,
         AttemptRefused{key,
                        Error{Code::kNoCapacity,
                              std::to_string(queue.size()) +
                                  " requests of this size wait already: come back later"},
                        std::max<Nanos>(backlog, std::chrono::seconds(1))});
}

// Behind the request on the same path, in case it went to the group already.
void PrefillBalancer::release(const ReleaseAttempt& message) {
  if (std::erase_if(queue, [&message](const PlacementPtr& waiting) {
        return waiting->key() == message.key;
      }) == 0) {
    notify(seat.wiring->prefill_group, message);
  }
  dispatch();
}

void PrefillBalancer::report(const PrefillLoad& message) {
  load = message;
  while (on_the_way.size() > sent - load.received[length_class]) {
    on_the_way.pop_front();
  }
  dispatch();
}

void PrefillBalancer::rewire(const Rewire& message) {
  seat.wiring = message.wiring;
  dispatch();
}

PrefillInstance PrefillBalancer::group() const {
  PrefillInstance instance{.alive = static_cast<bool>(seat.wiring->prefill_group)};
  instance.backlog = load.backlog.work;
  for (const Nanos work : on_the_way) {
    instance.backlog += work;
  }
  instance.waiting =
      load.backlog.waiting[length_class] + static_cast<std::int64_t>(on_the_way.size());
  return instance;
}

void PrefillBalancer::dispatch() {
  while (!queue.empty()) {
    const PrefillInstance instance = group();
    const auto choice = pick_prefill_instance(
        {&instance, 1}, queue.front()->work, seat.node->options.prefill_group_queue);
    if (!choice) {
      break;
    }
    PlacementPtr placement = std::move(queue.front());
    queue.pop_front();
    on_the_way.push_back(placement->work);
    ++sent;
    ++seat.progress;
    seat.node->log.event(LogLevel::kDebug,
                         "prefill.placed",
                         {{"request", placement->submission->request},
                          {"class", length_class},
                          {"work_ns", placement->work},
                          {"finish_ns", choice->finish}});
    notify(seat.wiring->prefill_group, PlacePrefill{std::move(placement)});
  }
  seat.node->metrics.prefill_queued[length_class] = static_cast<std::int64_t>(queue.size());
}

PrefillBalancerActor::behavior_type prefill_balancer(
    PrefillBalancerActor::stateful_pointer<PrefillBalancer> self,
    ContextPtr node,
    std::uint32_t part,
    int length_class) {
  self->state.seat = {.part = part, .node = std::move(node)};
  self->state.length_class = static_cast<std::size_t>(length_class);
  return {
      [self](const Rewire& m) { self->state.rewire(m); },
      [self](const Ping&) { self->state.seat.answer_ping(!self->state.queue.empty()); },
      [self](const PlacePrefill& m) { self->state.place(m); },
      [self](const ReleaseAttempt& m) { self->state.release(m); },
      [self](const PrefillLoad& m) { self->state.report(m); },
  };
}

}  // namespace

PrefillBalancerActor spawn_prefill_balancer(caf::actor_system& system,
                                            ContextPtr node,
                                            std::uint32_t part,
                                            int length_class) {
  return system.spawn(prefill_balancer, std::move(node), part, length_class);
}

}  // namespace shoal
