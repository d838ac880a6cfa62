// A report replaces the one before. A plan is over when its source says that it failed, when all
// sources use it, or when it is late.
#include "actors/cluster_group.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace shoal {
namespace {

void add_counts(std::vector<std::int64_t>& to, const std::vector<std::int64_t>& from) {
  to.resize(std::max(to.size(), from.size()));
  std::transform(from.begin(), from.end(), to.begin(), to.begin(), std::plus<>());
}

}  // namespace

ClusterGroup::ClusterGroup(std::function<Instant()> now, std::uint64_t first_plan)
    : now_(std::move(now)),
      plan_(first_plan) {}

std::vector<ExpertTraffic> ClusterGroup::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

ExpertPlacementMap ClusterGroup::placement() const {
  const std::lock_guard lock(mutex_);
  return placement_;
}

Bytes ClusterGroup::expert_bytes() const {
  const std::lock_guard lock(mutex_);
  return expert_;
}

// With the lock held.
bool ClusterGroup::all_use(EpochId epoch) const {
  return !sources_.empty() && std::ranges::all_of(sources_, [epoch](const auto& entry) {
    return entry.second && entry.second->epoch == epoch;
  });
}

// With the lock held. Where all experts began anew, epochs did.
bool ClusterGroup::is_used(EpochId epoch) const {
  return std::ranges::any_of(sources_, [epoch](const auto& entry) {
    return entry.second && entry.second->epoch == epoch;
  });
}

// With the lock held.
bool ClusterGroup::are_settled() const {
  return !placing_ && placement_.epoch != EpochId{} && all_use(placement_.epoch) &&
         std::ranges::all_of(sources_, [](const auto& entry) {
           return entry.second->settled && entry.second->plan_state != ExpertPlanState::kUnderWay;
         });
}

bool ClusterGroup::is_ready() const {
  const std::lock_guard lock(mutex_);
  return are_settled() &&
         std::ranges::all_of(sources_, [](const auto& entry) { return entry.second->whole; });
}

std::optional<EpochId> ClusterGroup::settled() const {
  const std::lock_guard lock(mutex_);
  return are_settled() ? std::optional(placement_.epoch) : std::nullopt;
}

void ClusterGroup::place(std::vector<ExpertLayer> layers,
                         Instant deadline,
                         std::function<void(Result<EpochId>)> done) {
  std::function<void()> wake;
  bool is_taken = false;
  {
    const std::lock_guard lock(mutex_);
    is_taken = !placing_ && !sources_.empty();
    if (is_taken) {
      auto order = std::make_shared<ExpertOrder>();
      order->plan = ++plan_;
      order->base = placement_.epoch;
      order->layers = std::move(layers);
      order->limit = std::max(deadline - now_(), Nanos{0});
      placing_ = {plan_, sources_.begin()->first, deadline, std::move(order), std::move(done)};
      wake = wake_;
    }
  }
  if (!is_taken) {
    done(fail(Code::kUnavailable, "no node that uses the experts can be reached"));
  } else if (wake) {
    wake();
  }
}

void ClusterGroup::on_order(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

std::optional<ClusterGroup::Order> ClusterGroup::take_order() {
  const std::lock_guard lock(mutex_);
  if (!placing_ || placing_->order == nullptr) {
    return std::nullopt;
  }
  return Order{placing_->source, std::exchange(placing_->order, nullptr)};
}

// With the lock held.
ClusterGroup::Done ClusterGroup::end(Result<EpochId> outcome) {
  Done done = [done = std::move(placing_->done), outcome = std::move(outcome)] { done(outcome); };
  placing_.reset();
  return done;
}

// With the lock held.
ClusterGroup::Done ClusterGroup::judge() {
  if (!placing_) {
    return {};
  }
  const auto source = sources_.find(placing_->source);
  if (source == sources_.end()) {
    return end(fail(Code::kPeerLost, "the node that was to bring it about is gone"));
  }
  if (const auto& report = source->second; report && report->plan == placing_->plan) {
    if (report->plan_state == ExpertPlanState::kFailed) {
      return end(fail(Code::kUnavailable,
                      report->reason.empty() ? "another one came into force" : report->reason));
    }
    if (report->plan_state == ExpertPlanState::kInForce && all_use(report->epoch)) {
      return end(report->epoch);
    }
  }
  return now_() > placing_->deadline ? end(fail(Code::kDeadline, "it was not in force in time"))
                                     : Done();
}

void ClusterGroup::reach(const std::vector<NodeId>& sources) {
  Done done;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(sources_, [&sources](const auto& entry) {
      return std::ranges::find(sources, entry.first) == sources.end();
    });
    for (const NodeId source : sources) {
      sources_.try_emplace(source);
    }
    done = judge();
  }
  if (done) {
    done();
  }
}

// With the lock held. Of another model's layers nothing is counted.
void ClusterGroup::add(const std::vector<ExpertTraffic>& traffic) {
  const bool fits = std::ranges::equal(
      traffic, placement_.layers, [](const ExpertTraffic& rows, const ExpertLayer& layer) {
        return std::ssize(rows.experts) == layer.shape.experts &&
               std::ssize(rows.ranks) == layer.shape.ranks;
      });
  if (!fits) {
    return;
  }
  traffic_.resize(std::max(traffic_.size(), traffic.size()));
  for (std::size_t i = 0; i < traffic.size(); ++i) {
    traffic_[i].exchanges += traffic[i].exchanges;
    add_counts(traffic_[i].experts, traffic[i].experts);
    add_counts(traffic_[i].ranks, traffic[i].ranks);
  }
}

void ClusterGroup::told(const ExpertReport& report) {
  Done done;
  {
    const std::lock_guard lock(mutex_);
    const auto source = sources_.find(report.node);
    if (source == sources_.end()) {
      return;
    }
    source->second = report;
    source->second->traffic.clear();
    source->second->map = nullptr;
    if (report.map != nullptr &&
        (report.map->epoch > placement_.epoch || !is_used(placement_.epoch))) {
      placement_ = *report.map;
    }
    add(report.traffic);
    expert_ = report.expert.value > 0 ? report.expert : expert_;
    done = judge();
  }
  if (done) {
    done();
  }
}

void ClusterGroup::tick() {
  Done done;
  {
    const std::lock_guard lock(mutex_);
    done = judge();
  }
  if (done) {
    done();
  }
}

EpochId ClusterGroup::known() const {
  const std::lock_guard lock(mutex_);
  return placement_.epoch;
}

}  // namespace shoal
