// The actor only counts: planning may take as long as a step, and loading longer.
#include "actors/ep_balancer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/cluster_group.h"
#include "actors/expert_window.h"
#include "actors/policy/expert_balance.h"

namespace shoal {
namespace {

constexpr std::uint64_t kSeed = 1;  // of the steps that the policy draws to compare placements

// One plan, away from the actor and whether or not that lives: it holds all that it needs.
struct Planning {
  ContextPtr node;
  std::shared_ptr<ExpertBalance> policy;  // the plan's alone until it has ended
  std::shared_ptr<ExpertFlight> flight;
  ExpertWindow window;
  ExpertPlacementMap current;

  void run() const;
  void tell(const ExpertBalancePlan& plan, Nanos time) const;
  void place(ExpertBalancePlan plan) const;
};

std::int64_t permille(double ratio) {
  return std::llround(ratio * 1000);
}

void Planning::tell(const ExpertBalancePlan& plan, Nanos time) const {
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const ExpertPlan& layer = plan.layers[i];
    if (layer.change != ExpertChange::kKept) {
      node->log.event(LogLevel::kDebug,
                      "experts.layer_planned",
                      {{"layer", i},
                       {"change", to_string(layer.change)},
                       {"slots", layer.moves.slots},
                       {"most_of_shard", layer.moves.most_of_rank},
                       {"imbalance_permille", permille(layer.imbalance_before)},
                       {"planned_permille", permille(layer.imbalance)},
                       {"measured_permille", permille(fullest_by_mean(window.layers[i].ranks))}});
    }
  }
  node->log.event(plan.changed == 0 ? LogLevel::kDebug : LogLevel::kInfo,
                  "experts.planned",
                  {{"policy", node->options.expert_balance.policy->name},
                   {"epoch", current.epoch},
                   {"steps", window.steps},
                   {"rows", window.rows},
                   {"layers", plan.layers.size()},
                   {"changed", plan.changed},
                   {"slots", plan.moves.slots},
                   {"reason", plan.changed == 0 ? "no move pays" : "moves pay"},
                   {"imbalance_permille", permille(plan.imbalance_before)},
                   {"planned_permille", permille(plan.imbalance)},
                   {"time_ns", time}});
}

void Planning::run() const {
  flight->has_begun = true;
  const Instant began = node->now();
  std::vector<std::vector<std::int64_t>> rows;
  for (const ExpertTraffic& layer : window.layers) {
    rows.push_back(layer.experts);
  }
  std::vector<SlotExperts> placed;
  for (const ExpertLayer& layer : current.layers) {
    placed.push_back(layer.expert_at);
  }
  ExpertBalancePlan plan = policy->plan(rows, window.steps, placed);
  const Nanos time = node->now() - began;
  node->expert_board.planned(time);
  tell(plan, time);
  if (plan.changed == 0) {
    node->expert_board.kept(*flight);
  } else {
    place(std::move(plan));
  }
}

void Planning::place(ExpertBalancePlan plan) const {
  std::vector<ExpertLayer> layers;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    layers.push_back({policy->shapes()[i], std::move(plan.layers[i].expert_at), policy->loads(i)});
  }
  const ExpertMoved moves{.slots = plan.moves.slots,
                          .bytes = node->expert_balance.group->expert_bytes() * plan.moves.slots};
  const auto settle = [node = node, flight = flight, moves, began = node->now()](
                          const Result<EpochId>& epoch) {
    ExpertMoved moved = moves;
    moved.time = node->now() - began;
    if (!epoch) {
      node->expert_board.failed(*flight);
      node->log.event(LogLevel::kWarning,
                      "experts.not_placed",
                      {{"code", to_string(epoch.error().code)}, {"reason", epoch.error().message}});
      return;
    }
    node->expert_board.placed(*flight, moved);
    node->log.event(LogLevel::kInfo,
                    "experts.placed",
                    {{"epoch", *epoch},
                     {"slots", moved.slots},
                     {"bytes", moved.bytes.value},
                     {"time_ns", moved.time}});
  };
  node->expert_balance.group->place(std::move(layers), flight->deadline, settle);
}

struct Balancer {
  static inline const char* name = "ep_balancer";

  ContextPtr node;
  WiringPtr wiring = std::make_shared<const Wiring>();
  std::shared_ptr<ExpertBalance> policy;
  std::vector<ExpertTraffic> seen;  // at the end of the last window
  Instant window_ends;
  bool are_counted = false;  // all sources were asked at the end of the window

  void start(ContextPtr context, const EpBalancerActor& me);
  Nanos period() const;
  void tick();
  void look();
  void fit(const ExpertPlacementMap& placement);

  // Experts on nodes of their own.
  void rewire(const Rewire& message);
  void ask(bool counts) const;
  void send_order() const;
};

void Balancer::start(ContextPtr context, const EpBalancerActor& me) {
  node = std::move(context);
  seen = node->expert_balance.group->traffic();
  window_ends = node->now() + node->options.expert_balance.window;
  if (node->cluster_experts != nullptr) {
    node->cluster_experts->on_order([weak = caf::actor_cast<caf::weak_actor_ptr>(me)] {
      if (const auto strong = weak.lock()) {
        notify(caf::actor_cast<EpBalancerActor>(strong), ExpertsDue{});
      }
    });
  }
}

// How sources are is asked more often than what they were given.
Nanos Balancer::period() const {
  constexpr Nanos kLongest = std::chrono::seconds(1);
  const Nanos window = node->options.expert_balance.window;
  return node->cluster_experts == nullptr ? window : std::min(window / 8, kLongest);
}

void Balancer::tick() {
  if (node->cluster_experts == nullptr) {
    look();
    return;
  }
  const Instant now = node->now();
  node->cluster_experts->tick();
  if (std::exchange(are_counted, false)) {
    look();
    window_ends = now + node->options.expert_balance.window;
  }
  are_counted = now >= window_ends;
  ask(are_counted);
}

void Balancer::rewire(const Rewire& message) {
  wiring = message.wiring;
  if (node->cluster_experts == nullptr) {
    return;
  }
  std::vector<NodeId> sources;
  for (std::uint32_t n = 0; n < wiring->nodes.size(); ++n) {
    if (wiring->nodes[n].expert_source) {
      sources.push_back(NodeId{n});
    }
  }
  node->cluster_experts->reach(sources);
  send_order();  // that the balancer before did not come to send
}

void Balancer::ask(bool counts) const {
  const std::optional<EpochId> settled = node->cluster_experts->settled();
  const EpochId known = node->cluster_experts->known();
  for (const NodeParts& parts : wiring->nodes) {
    notify(parts.expert_source, CountExperts{known, counts});
    for (const ExpertShardActor& shard : parts.expert_shards) {
      if (settled) {
        notify(shard, KeepExperts{*settled});
      }
    }
  }
}

void Balancer::send_order() const {
  if (node->cluster_experts == nullptr) {
    return;
  }
  if (auto order = node->cluster_experts->take_order()) {
    notify(wiring->at(order->source).expert_source, PlaceExperts{std::move(order->order)});
  }
}

// What was learned of other shapes is of no use.
void Balancer::fit(const ExpertPlacementMap& placement) {
  std::vector<ExpertShape> shapes;
  for (const ExpertLayer& layer : placement.layers) {
    shapes.push_back(layer.shape);
  }
  if (policy == nullptr || policy->shapes() != shapes) {
    const ExpertBalanceOptions& options = node->options.expert_balance;
    policy =
        std::make_shared<ExpertBalance>(*options.policy, std::move(shapes), options.costs, kSeed);
  }
}

// A window with few rows says little, and one behind which a plan is still under way could not be
// planned for: it goes on.
void Balancer::look() {
  std::vector<ExpertTraffic> now = node->expert_balance.group->traffic();
  ExpertWindow window = window_between(seen, now);
  if (window.rows < node->options.expert_balance.least_rows ||
      !node->expert_balance.group->is_ready()) {
    return;
  }
  auto flight = node->expert_board.begin(node->now(), node->options.expert_balance.limit);
  if (flight == nullptr) {
    return;
  }
  seen = std::move(now);
  node->expert_board.saw_window(window.layers);
  ExpertPlacementMap current = node->expert_balance.group->placement();
  fit(current);
  node->expert_balance.background.defer(
      Nanos{0},
      [planning =
           Planning{node, policy, std::move(flight), std::move(window), std::move(current)}] {
        planning.run();
      });
}

EpBalancerActor::behavior_type ep_balancer(EpBalancerActor::stateful_pointer<Balancer> self,
                                           ContextPtr node) {
  self->state.start(std::move(node), self);
  send_after(self, self->state.period(), Tick{});
  return {
      [self](const Tick&) {
        self->state.tick();
        send_after(self, self->state.period(), Tick{});
      },
      [self](const Rewire& m) { self->state.rewire(m); },
      [self](const ExpertLoads& m) {
        if (self->state.node->cluster_experts != nullptr) {
          self->state.node->cluster_experts->told(*m.report);
        }
      },
      [self](const ExpertsDue&) { self->state.send_order(); },
  };
}

}  // namespace

EpBalancerActor spawn_ep_balancer(caf::actor_system& system, ContextPtr node) {
  return system.spawn(ep_balancer, std::move(node));
}

}  // namespace shoal
