// A change of the rollout, then what it means for the dispatcher, one change after the other.
#include "actors/expert_source.h"

#include <algorithm>
#include <utility>

#include "actors/expert_shards.h"
#include "actors/expert_window.h"

namespace shoal {
namespace {

// After so long a shard is asked again: a message may have been lost where no link was.
constexpr Nanos kPatience = std::chrono::seconds(2);

}  // namespace

Result<std::unique_ptr<ExpertSource>> ExpertSource::open(const ExpertSourceSetup& setup,
                                                         const kernels::ExpertModel& model,
                                                         transport::ExpertExchange& exchange,
                                                         transport::Scheduler timers) {
  TRY(std::vector<ExpertLayer> layers,
      even_layers(model, static_cast<std::int32_t>(setup.ranks.size()), setup.redundant));
  auto first =
      std::make_shared<const ExpertPlacementMap>(ExpertPlacementMap{EpochId{1}, std::move(layers)});
  return std::unique_ptr<ExpertSource>(
      new ExpertSource(setup, std::move(first), exchange, std::move(timers)));
}

ExpertSource::ExpertSource(const ExpertSourceSetup& setup,
                           ExpertMapPtr first,
                           transport::ExpertExchange& exchange,
                           transport::Scheduler timers)
    : setup_(setup),
      exchange_(exchange),
      dispatcher_(exchange, setup.ranks, std::move(timers), setup.limits),
      rollout_(setup.ranks.size(), std::move(first), setup.placer),
      uses_(setup.ranks.size()) {}

ExpertSource::~ExpertSource() = default;

kernels::ExchangeRunner ExpertSource::runner() {
  return [this](kernels::Exchange& exchange, std::function<void(Result<void>)> complete) {
    dispatcher_.run(exchange, [this, complete = std::move(complete)](Result<void> outcome) {
      // Refused for a ceiling of this side, or stopped: that says nothing of the shards.
      if (!outcome && outcome.error().code != Code::kNoCapacity &&
          outcome.error().code != Code::kUnavailable) {
        doubt();
      }
      complete(std::move(outcome));
    });
  };
}

// What waited is sent without a lock: where that fails at once, there is another change.
template <class Change>
void ExpertSource::change(const Change& change) {
  std::function<void()> wake;
  {
    const std::lock_guard changing(changing_);
    ExpertMapPtr publish;
    std::vector<bool> away;
    {
      const std::lock_guard lock(mutex_);
      change(rollout_);
      const ExpertMapPtr& in_force = rollout_.in_force();
      if (in_force != nullptr && in_force->epoch != published_) {
        publish = in_force;
        published_ = in_force->epoch;
      }
      away = rollout_.away();
      wake = wake_;
    }
    // What is invalid for this source's model was refused by every shard before.
    if (publish == nullptr || dispatcher_.publish(*publish)) {
      dispatcher_.set_away(std::move(away));
    }
  }
  dispatcher_.go_on();
  if (wake) {
    wake();
  }
}

Result<void> ExpertSource::check(const std::vector<ExpertLayer>& layers) const {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].shape.ranks != static_cast<std::int32_t>(setup_.ranks.size()) ||
        !serves_all(layers[i].shape, layers[i].expert_at)) {
      return fail(Code::kInvalid,
                  "placement of experts, layer " + std::to_string(i) + ": it does not serve all");
    }
  }
  return {};
}

Result<EpochId> ExpertSource::place(std::vector<ExpertLayer> layers) {
  TRY_VOID(check(layers));
  EpochId epoch;
  change([&epoch, &layers](ExpertRollout& rollout) { epoch = rollout.place(std::move(layers)); });
  return epoch;
}

// With the lock held. A shard that is away could not load what it is given, and what moved to it
// would be nowhere.
std::string ExpertSource::refusal(const ExpertOrder& order) const {
  const ExpertMapPtr& in_force = rollout_.in_force();
  const std::vector<bool> away = rollout_.away();
  if (in_force == nullptr || in_force->epoch != order.base || rollout_.front() != order.base) {
    return "it was planned from another placement";
  }
  if (rollout_.next() != nullptr || std::ranges::find(away, true) != away.end()) {
    return "another placement is under way, or a shard is away";
  }
  const auto checked = check(order.layers);
  return checked ? std::string() : checked.error().message;
}

void ExpertSource::take(const ExpertOrder& order, Instant now) {
  change([this, &order, now](ExpertRollout& rollout) {
    if (order.plan == plan_.number) {
      return;
    }
    plan_ = {order.plan, {}, now + order.limit, refusal(order)};
    if (plan_.failure.empty()) {
      plan_.epoch = rollout.place(order.layers);
    }
  });
}

// With the lock held.
ExpertPlanState ExpertSource::plan_state() const {
  if (plan_.number == 0) {
    return ExpertPlanState::kNone;
  }
  if (!plan_.failure.empty()) {
    return ExpertPlanState::kFailed;
  }
  const EpochId in_force = rollout_.in_force()->epoch;
  const bool is_wanted = rollout_.front() == plan_.epoch ||
                         (rollout_.next() != nullptr && rollout_.next()->epoch == plan_.epoch);
  return in_force == plan_.epoch ? ExpertPlanState::kInForce
         : is_wanted             ? ExpertPlanState::kUnderWay
                                 : ExpertPlanState::kFailed;
}

ExpertReport ExpertSource::report(EpochId known, bool counts) {
  ExpertReport report;
  report.settled = dispatcher_.is_settled();
  const std::vector<ExpertTraffic> traffic =
      counts ? dispatcher_.traffic() : std::vector<ExpertTraffic>();
  const std::lock_guard lock(mutex_);
  known_ = known;
  if (const ExpertMapPtr& in_force = rollout_.in_force()) {
    report.epoch = in_force->epoch;
    report.map = in_force->epoch == known ? nullptr : in_force;
  }
  const std::vector<bool> away = rollout_.away();
  report.whole = std::ranges::find(away, true) == away.end();
  if (counts) {
    report.traffic = window_between(reported_, traffic).layers;
    reported_ = traffic;
  }
  kernels::ExpertEngineUse all;
  for (const kernels::ExpertEngineUse& use : uses_) {
    all.experts += use.experts;
    all.weights = all.weights + use.weights;
  }
  report.expert = Bytes{all.experts == 0 ? 0 : all.weights.value / all.experts};
  report.plan = plan_.number;
  report.plan_state = plan_state();
  report.reason = plan_.failure.empty() ? rollout_.refusals() : plan_.failure;
  return report;
}

void ExpertSource::tick(Instant now) {
  const auto is_due = [this, now] {
    const std::lock_guard lock(mutex_);
    const bool is_late = plan_state() == ExpertPlanState::kUnderWay && now > plan_.deadline &&
                         rollout_.next() != nullptr;
    const bool is_behind =
        rollout_.waits() || (rollout_.in_force() != nullptr && rollout_.in_force()->epoch < known_);
    waits_since_ = is_behind ? waits_since_.value_or(now) : std::optional<Instant>();
    return is_late || (waits_since_ && now - *waits_since_ > kPatience);
  };
  if (!is_due()) {
    return;
  }
  change([this, now](ExpertRollout& rollout) {
    if (plan_state() == ExpertPlanState::kUnderWay && now > plan_.deadline) {
      plan_.failure = rollout.next() == nullptr ? "" : "it was not in force in time";
      rollout.give_up();
    }
    if (waits_since_ && now - *waits_since_ > kPatience) {
      waits_since_ = now;
      rollout.ask_again();
    }
  });
}

void ExpertSource::uses(std::size_t rank, const kernels::ExpertEngineUse& use) {
  const std::lock_guard lock(mutex_);
  uses_.at(rank) = use;
}

ExpertMapPtr ExpertSource::placement() const {
  const std::lock_guard lock(mutex_);
  return rollout_.in_force();
}

void ExpertSource::on_orders(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

std::vector<ExpertRollout::Order> ExpertSource::take_orders() {
  const std::lock_guard lock(mutex_);
  return rollout_.take_orders();
}

void ExpertSource::told(std::size_t rank, const ExpertRollout::Told& said) {
  change([rank, &said](ExpertRollout& rollout) { rollout.told(rank, said); });
}

void ExpertSource::lost(const std::vector<std::size_t>& ranks) {
  change([&ranks](ExpertRollout& rollout) {
    for (const std::size_t rank : ranks) {
      rollout.lost(rank);
    }
  });
}

void ExpertSource::doubt() {
  change([](ExpertRollout& rollout) { rollout.doubt(); });
}

std::string ExpertSource::trouble() const {
  const std::lock_guard lock(mutex_);
  const std::vector<bool> away = rollout_.away();
  const auto rank = std::ranges::find(away, true);
  if (rank == away.end()) {
    return {};
  }
  const ExpertHome& home = setup_.ranks[static_cast<std::size_t>(rank - away.begin())];
  const std::string refusal = rollout_.refusals();
  return "waits for expert shard " + std::to_string(home.shard) + " of node " +
         std::to_string(home.node.value) + (refusal.empty() ? "" : ": " + refusal);
}

}  // namespace shoal
