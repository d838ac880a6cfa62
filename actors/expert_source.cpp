// A change of the rollout, then what it means for the dispatcher, one change after the other.
#include "actors/expert_source.h"

#include <algorithm>
#include <utility>

#include "actors/expert_shards.h"

namespace shoal {

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
      rollout_(setup.ranks.size(), std::move(first)) {}

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

Result<void> ExpertSource::place(std::vector<ExpertLayer> layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].shape.ranks != static_cast<std::int32_t>(setup_.ranks.size()) ||
        !serves_all(layers[i].shape, layers[i].expert_at)) {
      return fail(Code::kInvalid,
                  "placement of experts, layer " + std::to_string(i) + ": it does not serve all");
    }
  }
  change([&layers](ExpertRollout& rollout) { rollout.place(std::move(layers)); });
  return {};
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
