// Queues one length class of one router and hands its requests to the groups, a bounded number
// ahead of their admission.
#include "actors/prefill_balancer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/placement.h"
#include "actors/policy/avoidance.h"
#include "actors/policy/cost_model.h"
#include "actors/policy/kv_budget.h"
#include "actors/policy/prefill_cost.h"
#include "actors/policy/prefill_policies.h"

namespace shoal {
namespace {

struct PrefillBalancer {
  static inline const char* name = "prefill_balancer";

  // What this part knows of one node's group.
  struct Site {
    std::uint64_t session = 0;
    PrefillLoad load;  // its last report
    Instant step_ends{};
    std::deque<Nanos> on_the_way;  // work sent that the report does not contain yet
    std::uint64_t sent = 0;
    Instant avoided_until = Instant::min();
  };

  PartSeat seat;
  std::size_t length_class = 0;
  std::unique_ptr<PrefillPolicy> policy;
  std::deque<PlacementPtr> queue;
  std::vector<Site> sites;  // by NodeId
  // A part is wired after those that follow it, so this node's group may report before that.
  std::optional<PrefillLoad> early;
  std::map<AttemptKey, SiteRef> placed;  // until released

  void place(const PlacePrefill& message);
  void release(const ReleaseAttempt& message);
  void report(const PrefillLoad& message);
  void rewire(const Rewire& message);

  void dispatch();
  PrefillNeed need(const Placement& placement) const;
  Nanos waiting_work() const;
  std::optional<Nanos> too_late_by(const Placement& placement) const;
  std::vector<PrefillInstance> instances(const Placement& placement) const;  // spans of `sites`
  std::vector<PrefillInstance> open_instances(const Placement& placement) const;

  bool drains(NodeId node) const { return seat.wiring->at(node).draining; }

  void send(PlacementPtr placement, const PrefillChoice& choice);
  void refuse(const Placement& placement) const;
  void refuse_too_late(const Placement& placement, Nanos late) const;
  void refuse_too_large(const Placement& placement) const;
  std::int64_t blocks_at(std::size_t node, const Placement& placement) const;
};

void PrefillBalancer::place(const PlacePrefill& message) {
  if (queue.size() >= seat.node->options.prefill_queue) {
    refuse(*message.placement);
    return;
  }
  if (const auto late = too_late_by(*message.placement)) {
    refuse_too_late(*message.placement, *late);
    return;
  }
  queue.push_back(message.placement);
  dispatch();
}

// Nothing: it may make it, or must be tried, because its client has begun to read.
std::optional<Nanos> PrefillBalancer::too_late_by(const Placement& placement) const {
  const Submission& submission = *placement.submission;
  if (submission.attempt.value > 1) {
    return std::nullopt;
  }
  const auto first_token =
      latest_first_token(open_instances(placement), need(placement), waiting_work());
  const Nanos left = submission.deadline - seat.node->now();
  return first_token && *first_token > left ? std::optional(*first_token - left) : std::nullopt;
}

Nanos PrefillBalancer::waiting_work() const {
  Nanos work{0};
  for (const PlacementPtr& waiting : queue) {
    work += waiting->work;
  }
  return work;
}

PrefillNeed PrefillBalancer::need(const Placement& placement) const {
  return {.work = placement.work,
          .length_class = static_cast<int>(length_class),
          .rows = placement.span.total - placement.span.reuse.start,
          .quota = seat.node->options.prefill_limits.quota,
          .waiting_limit = seat.node->options.prefill_group_queue,
          .tie = placement.submission->request.value};
}

// Comes back when the group that is best off would be through with what waits here.
void PrefillBalancer::refuse(const Placement& placement) const {
  std::optional<Nanos> first_token;
  for (PrefillInstance& instance : open_instances(placement)) {
    if (instance.alive) {
      instance.queued[length_class] += waiting_work();
      const Nanos predicted = predict_first_token(instance, need(placement));
      first_token = std::min(first_token.value_or(predicted), predicted);
    }
  }
  const Nanos wait = first_token.value_or(Nanos{0});
  notify(seat.wiring->here().router,
         AttemptRefused{placement.key(),
                        Error{Code::kNoCapacity,
                              std::to_string(queue.size()) +
                                  " requests of this size wait already: come back later"},
                        std::max<Nanos>(wait, std::chrono::seconds(1)),
                        {{"why", std::string("queue_full")},
                         {"queued", std::ssize(queue)},
                         {"first_token_ns", wait.count()}}});
}

// Comes back when so much less waits that it would be in time; alone it may be too late, too, and
// then only a longer time helps.
void PrefillBalancer::refuse_too_late(const Placement& placement, Nanos late) const {
  const auto seconds = [](Nanos time) {
    return std::to_string((time + std::chrono::milliseconds(999)) / std::chrono::seconds(1));
  };
  const Nanos left = placement.submission->deadline - seat.node->now();
  notify(seat.wiring->here().router,
         AttemptRefused{placement.key(),
                        Error{Code::kNoCapacity,
                              "its first token would come about " + seconds(late) +
                                  " s after its time is over (the prompt alone takes " +
                                  seconds(placement.work) +
                                  " s): come back later, or give it a longer timeout"},
                        std::max<Nanos>(late, std::chrono::seconds(1)),
                        {{"why", std::string("too_late")},
                         {"first_token_ns", (left + late).count()},
                         {"left_ns", left.count()},
                         {"work_ns", placement.work.count()}}});
}

void PrefillBalancer::refuse_too_large(const Placement& placement) const {
  notify(seat.wiring->here().router,
         AttemptRefused{placement.key(),
                        Error{Code::kUnavailable,
                              "the request may need " + std::to_string(placement.blocks) +
                                  " KV blocks, more than any prefill node that is up has: lower "
                                  "max_tokens or shorten the prompt"},
                        {},
                        {{"why", std::string("cannot_fit")}, {"blocks", placement.blocks}}});
}

// Behind the request on the same path, in case it went to a group already. An attempt that this
// part never placed may be with any group.
void PrefillBalancer::release(const ReleaseAttempt& message) {
  if (const auto place = placed.find(message.key); place != placed.end()) {
    if (message.failed) {
      sites[place->second.node.value].avoided_until = seat.node->now() + kAvoided;
    }
    if (!seat.wiring->lost(place->second)) {
      notify(seat.wiring->at(place->second.node).prefill_group, message);
    }
    placed.erase(place);
  } else if (std::erase_if(queue, [&message](const PlacementPtr& waiting) {
               return waiting->key() == message.key;
             }) == 0) {
    for (const NodeParts& node : seat.wiring->nodes) {
      notify(node.prefill_group, message);
    }
  }
  dispatch();
}

void PrefillBalancer::report(const PrefillLoad& message) {
  if (sites.empty()) {
    early = message;
    return;
  }
  if (message.node.value >= sites.size()) {
    return;
  }
  Site& site = sites[message.node.value];
  const std::uint64_t received = message.received[length_class];
  if (received > site.sent) {
    return;  // counts of a session that this part has not heard of yet
  }
  site.load = message;
  if (message.cost.steps > 0) {
    seat.node->prices.set(message.cost.coefficients);
  }
  site.step_ends = seat.node->now() + message.backlog.step_left;
  while (site.on_the_way.size() > site.sent - received) {
    site.on_the_way.pop_front();
  }
  dispatch();
}

void PrefillBalancer::rewire(const Rewire& message) {
  seat.wiring = message.wiring;
  sites.resize(seat.wiring->nodes.size());
  for (std::size_t n = 0; n < sites.size(); ++n) {
    if (sites[n].session != seat.wiring->nodes[n].session) {
      sites[n] = Site{.session = seat.wiring->nodes[n].session, .load = {}, .on_the_way = {}};
    }
  }
  if (const auto load = std::exchange(early, std::nullopt)) {
    report(*load);
  }
  dispatch();
}

// What the group will reserve: the worst case of the whole answer where decode goes on beside it.
std::int64_t PrefillBalancer::blocks_at(std::size_t node, const Placement& placement) const {
  const bool stays = node == seat.wiring->self.value && seat.wiring->here().decode_group;
  return stays ? placement.blocks : worst_case_blocks(placement.span.total, 0);
}

std::vector<PrefillInstance> PrefillBalancer::instances(const Placement& placement) const {
  std::vector<PrefillInstance> instances(sites.size());
  for (std::size_t n = 0; n < sites.size(); ++n) {
    const Site& site = sites[n];
    instances[n].alive = static_cast<bool>(seat.wiring->nodes[n].prefill_group);
    instances[n].holds = site.load.blocks == 0 || blocks_at(n, placement) <= site.load.blocks;
    instances[n].avoided =
        drains(NodeId{static_cast<std::uint32_t>(n)}) || seat.node->now() < site.avoided_until;
    instances[n].work =
        price_apart(prefill_work(CostModel(site.load.cost.coefficients), placement.span),
                    placement.work,
                    site.load.cost.steps);
    instances[n].late_ppm = site.load.cost.late_ppm;
    instances[n].steps = site.load.cost.steps;
    instances[n].queued = site.load.backlog.queued;
    instances[n].ranks = site.load.backlog.ranks;
    for (const Nanos work : site.on_the_way) {
      instances[n].queued[length_class] += work;
    }
    instances[n].step_left = std::max(Nanos{0}, site.step_ends - seat.node->now());
    for (const PrefillRankLoad& rank : instances[n].ranks) {
      instances[n].requests += rank.requests;
    }
    for (const std::int64_t waiting : site.load.backlog.waiting) {
      instances[n].requests += waiting;
    }
    instances[n].requests += static_cast<std::int64_t>(site.on_the_way.size());
    instances[n].waiting =
        site.load.backlog.waiting[length_class] + static_cast<std::int64_t>(site.on_the_way.size());
  }
  return instances;
}

// Where the request may go: not to a node that drains, unless it goes on there.
std::vector<PrefillInstance> PrefillBalancer::open_instances(const Placement& placement) const {
  std::vector<PrefillInstance> open = instances(placement);
  for (std::uint32_t n = 0; n < open.size(); ++n) {
    open[n].alive =
        open[n].alive && (!drains(NodeId{n}) || goes_on_at(*placement.submission, NodeId{n}));
  }
  return open;
}

// Nobody can take the one that waits longest but a node that drains: those behind it may go on.
void PrefillBalancer::dispatch() {
  for (std::size_t next = 0; next < queue.size();) {
    const auto at = queue.begin() + static_cast<std::ptrdiff_t>(next);
    if (fits_nowhere(instances(**at))) {
      refuse_too_large(**at);
      queue.erase(at);
      continue;
    }
    const std::vector<PrefillInstance> open = open_instances(**at);
    const bool can_take = std::any_of(
        open.begin(), open.end(), [](const PrefillInstance& i) { return i.alive && i.holds; });
    const auto choice = policy->pick(open, need(**at));
    if (choice) {
      PlacementPtr placement = std::move(*at);
      queue.erase(at);
      const Nanos work = open[choice->instance].work.value_or(placement->work);
      sites[choice->instance].on_the_way.push_back(work);
      send(std::move(placement), *choice);
    } else if (can_take) {
      break;
    } else {
      ++next;
    }
  }
  seat.node->metrics.prefill_queued[length_class] = static_cast<std::int64_t>(queue.size());
}

void PrefillBalancer::send(PlacementPtr placement, const PrefillChoice& choice) {
  const SiteRef site = seat.wiring->site(NodeId{static_cast<std::uint32_t>(choice.instance)});
  ++sites[choice.instance].sent;
  placed[placement->key()] = site;
  ++seat.progress;
  seat.node->log.event(LogLevel::kDebug,
                       "prefill.placed",
                       {{"request", placement->submission->request},
                        {"class", length_class},
                        {"node", site.node},
                        {"work_ns", placement->work},
                        {"finish_ns", choice.finish}});
  notify(seat.wiring->here().router, PrefillPlaced{placement->key(), site, choice.finish});
  notify(seat.wiring->at(site.node).prefill_group, PlacePrefill{std::move(placement)});
}

PrefillBalancerActor::behavior_type prefill_balancer(
    PrefillBalancerActor::stateful_pointer<PrefillBalancer> self,
    ContextPtr node,
    std::uint32_t part,
    int length_class) {
  self->state.seat = {.part = part, .node = std::move(node)};
  self->state.length_class = static_cast<std::size_t>(length_class);
  self->state.policy = self->state.seat.node->options.prefill_policy->make(part);
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
