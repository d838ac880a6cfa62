// Sums what the nodes count over a bucket of time, then plans.
#include "actors/autoscaler.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

namespace shoal {
namespace {

constexpr std::array<const char*, kScaledRoles> kRoleNames = {"prefill", "decode"};

std::string_view name_of(ScaleReason reason) {
  switch (reason) {
    case ScaleReason::kEnough:
      return "enough";
    case ScaleReason::kGrows:
      return "grows";
    case ScaleReason::kShrinks:
      return "shrinks";
    case ScaleReason::kHeld:
      return "held";
    case ScaleReason::kAtMost:
      return "at_most";
  }
  return "enough";
}

struct Scaler {
  static inline const char* name = "autoscaler";

  ContextPtr node;
  std::unique_ptr<Autoscaler> policy;
  std::unique_ptr<Provisioner> provisioner;
  std::map<NodeId, ServiceDemand> counted;  // totals as each node last said
  ServiceDemand came;                       // in this bucket
  ViewPtr view;
  bool has_planned = false;

  void start(ContextPtr context);
  void see(const ViewPublished& message);
  void beat(const NodeBeat& message);
  void plan();
  std::int64_t nodes_of(int role) const;
  PoolLoad load(int role) const;
  void carry_out(const ScalePlan& made, std::span<const PoolLoad> loads);
};

void Scaler::start(ContextPtr context) {
  node = std::move(context);
  const AutoscaleOptions& options = node->options.autoscale;
  const std::array<PoolShape, kScaledRoles> shapes = {options.prefill, options.decode};
  policy = options.policy->make(options.timing, shapes);
  provisioner = options.provisioner->make(node->log);
}

// Totals, so that a beat that was lost is made good by the next. A process that started again
// counts from 0.
void Scaler::beat(const NodeBeat& message) {
  const auto [last, is_new] = counted.try_emplace(message.node, message.demand);
  if (is_new) {
    return;  // what came before this part lived is nobody's bucket
  }
  for (std::size_t r = 0; r < came.ns.size(); ++r) {
    const std::int64_t now = message.demand.ns[r];
    const std::int64_t before = last->second.ns[r];
    came.ns[r] += now < before ? now : now - before;
  }
  last->second = message.demand;
}

// Until it has planned, what there is is what there should be.
void Scaler::see(const ViewPublished& message) {
  view = message.view;
  for (int role = 0; role < kScaledRoles; ++role) {
    ScaleMetrics& metrics = node->metrics.autoscale[static_cast<std::size_t>(role)];
    metrics.units = nodes_of(role);
    if (!has_planned) {
      metrics.wanted = metrics.units.load();
    }
  }
}

std::int64_t Scaler::nodes_of(int role) const {
  return std::count_if(view->members.begin(), view->members.end(), [this, role](const Member& one) {
    const NodeRoles& roles = node->cluster->topology.nodes.at(one.node.value).roles;
    return role == kScaledPrefill ? roles.prefill : roles.decode;
  });
}

PoolLoad Scaler::load(int role) const {
  const auto r = static_cast<std::size_t>(role);
  PoolLoad load;
  const auto bucket = static_cast<double>(node->options.autoscale.timing.bucket.count());
  load.demand_ns = static_cast<std::int64_t>(static_cast<double>(came.ns[r]) * 1e9 / bucket);
  load.units = nodes_of(role);
  return load;
}

void Scaler::plan() {
  if (view == nullptr) {
    return;
  }
  const std::array<PoolLoad, kScaledRoles> loads = {load(kScaledPrefill), load(kScaledDecode)};
  came = {};
  has_planned = true;
  carry_out(policy->plan(loads), loads);
}

void Scaler::carry_out(const ScalePlan& made, std::span<const PoolLoad> loads) {
  std::vector<RoleCount> counts;
  for (std::size_t r = 0; r < kRoleNames.size(); ++r) {
    const ScaleDecision& decision = made.pools.at(r);
    ScaleMetrics& metrics = node->metrics.autoscale[r];
    metrics.units = loads[r].units;
    metrics.wanted = decision.units;
    metrics.demand_ns = loads[r].demand_ns;
    metrics.expected_ns = decision.expected_ns;
    counts.push_back({kRoleNames[r], decision.units});
    node->log.event(LogLevel::kDebug,
                    "autoscale.planned",
                    {{"role", kRoleNames[r]},
                     {"units", loads[r].units},
                     {"wanted", decision.units},
                     {"reason", name_of(decision.reason)},
                     {"demand_ns", loads[r].demand_ns},
                     {"expected_ns", decision.expected_ns},
                     {"margin_permille", decision.margin_permille}});
  }
  if (const auto asked = provisioner->request(counts); !asked) {
    node->log.event(  // the next plan asks again
        LogLevel::kWarning,
        "provision.failed",
        {{"reason", asked.error().message}});
  }
}

AutoscalerActor::behavior_type autoscaler(AutoscalerActor::stateful_pointer<Scaler> self,
                                          ContextPtr node) {
  self->state.start(std::move(node));
  send_after(self, self->state.node->options.autoscale.timing.bucket, Tick{});
  return {
      [self](const Tick&) {
        self->state.plan();
        send_after(self, self->state.node->options.autoscale.timing.bucket, Tick{});
      },
      [self](const NodeBeat& m) { self->state.beat(m); },
      [self](const ViewPublished& m) { self->state.see(m); },
  };
}

}  // namespace

AutoscalerActor spawn_autoscaler(caf::actor_system& system, ContextPtr node) {
  return system.spawn(autoscaler, std::move(node));
}

}  // namespace shoal
