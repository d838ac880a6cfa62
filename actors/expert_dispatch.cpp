// One pass over the pairs of rows and experts in row order fills the parts; a second one, when they
// came back, puts the outputs where the pairs are.
#include "actors/expert_dispatch.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <utility>

namespace shoal {

namespace {

transport::ExpertBatch batch_of(const transport::ExpertBatchShape& shape,
                                const kernels::Exchange& exchange,
                                std::span<const std::int64_t> rows,
                                std::span<const std::int64_t> pairs,
                                std::span<const std::int32_t> row,
                                std::span<const std::int32_t> slot) {
  const auto fill =
      [&exchange, rows, pairs, row, slot](const transport::ExpertBatch::Fields& fields) {
        std::copy(row.begin(), row.end(), fields.row);
        std::copy(slot.begin(), slot.end(), fields.slot);
        for (std::size_t i = 0; i < pairs.size(); ++i) {
          fields.weight[i] = exchange.weights[pairs[i]];
        }
        const std::int64_t dim = exchange.dim;
        const std::int64_t groups = dim / kernels::kGroup;
        for (std::size_t i = 0; i < rows.size(); ++i) {
          const auto to = static_cast<std::int64_t>(i);
          std::copy_n(exchange.x.codes + rows[i] * dim, dim, fields.codes + to * dim);
          std::copy_n(exchange.x.scales + rows[i] * groups, groups, fields.scales + to * groups);
        }
      };
  return transport::ExpertBatch(shape, fill);
}

void put_outputs(const kernels::Exchange& exchange,
                 std::span<const std::int64_t> pairs,
                 const transport::ExpertOutputs& outputs) {
  const auto bytes = static_cast<std::size_t>(exchange.dim) * sizeof(kernels::Bf16);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    std::memcpy(exchange.outputs + pairs[i] * exchange.dim, outputs.rows + i * bytes, bytes);
  }
}

}  // namespace

ExpertDispatcher::Routing::Layer::Layer(const ExpertLayer& layer, const SlotExperts& here)
    : shape(layer.shape),
      serves(serves_all(shape, here)) {
  if (serves) {
    replicas.emplace(shape, here);
    split = expert_splits().front().make(
        shape,
        here,
        layer.loads.empty() ? std::vector<double>(static_cast<std::size_t>(shape.experts), 1.0)
                            : layer.loads);
  }
}

ExpertDispatcher::Routing::Routing(const ExpertPlacementMap& map, const std::vector<bool>& away)
    : epoch(map.epoch) {
  for (const ExpertLayer& layer : map.layers) {
    SlotExperts expert_at = layer.expert_at;
    for (std::int32_t slot = 0; slot < layer.shape.all_slots(); ++slot) {
      const auto rank = static_cast<std::size_t>(layer.shape.rank_of(slot));
      if (rank < away.size() && away[rank]) {
        expert_at[static_cast<std::size_t>(slot)] = kEmptySlot;
      }
    }
    layers.emplace_back(layer, expert_at);
  }
}

ExpertDispatcher::ExpertDispatcher(transport::ExpertExchange& exchange,
                                   std::vector<ExpertHome> ranks,
                                   transport::Scheduler timers,
                                   const ExpertDispatchLimits& limits)
    : exchange_(exchange),
      ranks_(std::move(ranks)),
      timers_(std::move(timers)),
      limits_(limits) {}

ExpertDispatcher::~ExpertDispatcher() {
  stop();
}

// With the lock held. Ranks are away rarely, and then mostly nothing can be routed around them.
void ExpertDispatcher::route(State& state) const {
  const bool all_here = std::ranges::find(state.away, true) == state.away.end();
  state.routing = all_here ? state.whole : std::make_shared<Routing>(*state.map, state.away);
}

Result<void> ExpertDispatcher::publish(ExpertPlacementMap map) {
  for (std::size_t i = 0; i < map.layers.size(); ++i) {
    const ExpertLayer& layer = map.layers[i];
    if (layer.shape.ranks != static_cast<std::int32_t>(ranks_.size()) ||
        !serves_all(layer.shape, layer.expert_at)) {
      return fail(Code::kInvalid,
                  "placement of experts, layer " + std::to_string(i) +
                      ": an expert has no slot, or there are other ranks");
    }
  }
  auto whole = std::make_shared<Routing>(map, std::vector<bool>());
  std::shared_ptr<const ExpertPlacementMap> old;  // let go without the lock
  const std::lock_guard lock(state_->mutex);
  state_->traffic.resize(std::max(state_->traffic.size(), map.layers.size()));
  for (std::size_t i = 0; i < map.layers.size(); ++i) {
    state_->traffic[i].experts.resize(static_cast<std::size_t>(map.layers[i].shape.experts));
    state_->traffic[i].ranks.resize(ranks_.size());
  }
  old = std::exchange(state_->map, std::make_shared<const ExpertPlacementMap>(std::move(map)));
  state_->before = old;
  state_->whole = std::move(whole);
  route(*state_);
  return {};
}

bool ExpertDispatcher::is_settled() const {
  const std::lock_guard lock(state_->mutex);
  return state_->before.expired();
}

void ExpertDispatcher::set_away(std::vector<bool> away) {
  const std::lock_guard lock(state_->mutex);
  if (state_->away == away) {
    return;
  }
  state_->away = std::move(away);
  if (state_->map != nullptr) {
    route(*state_);
  }
}

// A pair of another row: with what goes there and what comes back below the longest message.
bool ExpertDispatcher::fits_one_more(const Plan::Part& part, std::int64_t dim) const {
  constexpr std::int64_t kHeader = 64;
  const std::int64_t rows = std::ssize(part.rows) + 1;
  const std::int64_t pairs = std::ssize(part.pairs) + 1;
  const std::int64_t there = rows * (dim + dim / kernels::kGroup) + pairs * 12;
  const std::int64_t back = pairs * dim * static_cast<std::int64_t>(sizeof(kernels::Bf16));
  return std::max(there, back) + kHeader <= limits_.message.value;
}

// With the lock held. True: the exchange waits now.
bool ExpertDispatcher::waits(kernels::Exchange& exchange,
                             std::function<void(Result<void>)>& complete) {
  if (state_->stopped || !limits_.waits) {
    return false;
  }
  state_->waiting.push_back({&exchange, std::move(complete), timers_.now() + limits_.exchange});
  timers_.defer(limits_.exchange, [weak = std::weak_ptr(state_), now = timers_.now] {
    if (const auto state = weak.lock()) {
      expire(*state, now());
    }
  });
  return true;
}

std::optional<ExpertDispatcher::Plan> ExpertDispatcher::plan(
    kernels::Exchange& exchange, std::function<void(Result<void>)>& complete) {
  const auto at = static_cast<std::size_t>(exchange.layer);
  {
    const std::lock_guard lock(state_->mutex);
    Routing* const routing = state_->routing.get();
    if (!state_->stopped && routing != nullptr && routing->layers.at(at).serves) {
      ExpertTraffic& traffic = state_->traffic[at];
      const std::vector<std::int32_t> counts = count_rows(exchange, traffic);
      Plan plan{state_->map, parts_of(routing->layers[at], counts, exchange)};
      for (const Plan::Part& part : plan.parts) {
        traffic.ranks[part.rank] += std::ssize(part.pairs);
      }
      return plan;
    }
    if (waits(exchange, complete)) {
      return std::nullopt;
    }
  }
  complete(fail(Code::kUnavailable,
                limits_.waits ? "the exchange of rows with experts has stopped"
                              : "no placement of the experts is known yet"));
  return std::nullopt;
}

// Rows of each expert in this exchange, which are added to all of the layer.
std::vector<std::int32_t> ExpertDispatcher::count_rows(const kernels::Exchange& exchange,
                                                       ExpertTraffic& traffic) {
  std::vector<std::int64_t>& experts = traffic.experts;
  std::vector<std::int32_t> counts(experts.size());
  for (std::int64_t i = 0; i < exchange.rows * exchange.top_k; ++i) {
    ++counts[static_cast<std::size_t>(exchange.experts[i])];
  }
  ++traffic.exchanges;
  std::transform(experts.begin(), experts.end(), counts.begin(), experts.begin(), std::plus<>());
  return counts;
}

std::vector<ExpertDispatcher::Plan::Part> ExpertDispatcher::parts_of(
    Routing::Layer& layer,
    std::span<const std::int32_t> counts,
    const kernels::Exchange& exchange) const {
  std::vector<std::int32_t> left(static_cast<std::size_t>(layer.shape.all_slots()));
  layer.split->split(counts, left);
  std::vector<Plan::Part> parts;
  std::vector<std::optional<std::size_t>> open(ranks_.size());  // the part of each that is filled
  for (std::int64_t i = 0; i < exchange.rows * exchange.top_k; ++i) {
    const auto slots = layer.replicas->slots_of(exchange.experts[i]);
    const std::int32_t slot = *std::ranges::find_if(
        slots, [&left](std::int32_t s) { return left[static_cast<std::size_t>(s)] > 0; });
    --left[static_cast<std::size_t>(slot)];
    const auto rank = static_cast<std::size_t>(layer.shape.rank_of(slot));
    if (!open[rank] || !fits_one_more(parts[*open[rank]], exchange.dim)) {
      open[rank] = parts.size();
      parts.push_back({.rank = rank});
    }
    Plan::Part& part = parts[*open[rank]];
    if (const std::int64_t row = i / exchange.top_k; part.rows.empty() || part.rows.back() != row) {
      part.rows.push_back(row);
    }
    part.pairs.push_back(i);
    part.row.push_back(static_cast<std::int32_t>(part.rows.size()) - 1);
    part.slot.push_back(slot % layer.shape.slots);
  }
  return parts;
}

void ExpertDispatcher::run(kernels::Exchange& exchange,
                           std::function<void(Result<void>)> complete) {
  std::optional<Plan> plan = this->plan(exchange, complete);
  if (!plan) {
    return;
  }
  transport::ExpertExchange::Dispatch dispatch{
      .epoch = plan->map->epoch, .deadline = timers_.now() + limits_.exchange, .parts = {}};
  std::vector<std::vector<std::int64_t>> pairs;
  for (Plan::Part& part : plan->parts) {
    const ExpertHome& home = ranks_[part.rank];
    const transport::ExpertBatchShape shape{.shard = home.shard,
                                            .epoch = plan->map->epoch,
                                            .layer = exchange.layer,
                                            .dim = exchange.dim,
                                            .rows = std::ssize(part.rows),
                                            .pairs = std::ssize(part.pairs)};
    dispatch.parts.push_back(
        {home.node, batch_of(shape, exchange, part.rows, part.pairs, part.row, part.slot)});
    pairs.push_back(std::move(part.pairs));
  }
  exchange_.dispatch(
      std::move(dispatch),
      [&exchange,
       pairs = std::move(pairs),
       complete = std::move(complete),
       map = std::move(plan->map)](Result<std::vector<transport::ExpertOutputs>> outputs) {
        if (!outputs) {
          return complete(tl::unexpected(std::move(outputs).error()));
        }
        for (std::size_t i = 0; i < pairs.size(); ++i) {
          put_outputs(exchange, pairs[i], (*outputs)[i]);
        }
        complete({});
      });
}

void ExpertDispatcher::go_on() {
  std::vector<Waiting> ready;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->routing == nullptr) {
      return;
    }
    const auto first = std::stable_partition(
        state_->waiting.begin(), state_->waiting.end(), [this](const Waiting& waiting) {
          return !state_->routing->layers.at(static_cast<std::size_t>(waiting.exchange->layer))
                      .serves;
        });
    std::move(first, state_->waiting.end(), std::back_inserter(ready));
    state_->waiting.erase(first, state_->waiting.end());
  }
  for (Waiting& waiting : ready) {
    run(*waiting.exchange, std::move(waiting.complete));
  }
}

void ExpertDispatcher::expire(State& state, Instant now) {
  std::vector<Waiting> late;
  {
    const std::lock_guard lock(state.mutex);
    const auto first = std::stable_partition(
        state.waiting.begin(), state.waiting.end(), [now](const Waiting& waiting) {
          return waiting.due > now;
        });
    std::move(first, state.waiting.end(), std::back_inserter(late));
    state.waiting.erase(first, state.waiting.end());
  }
  for (const Waiting& waiting : late) {
    waiting.complete(
        fail(Code::kUnavailable, "expert shards were away for longer than an exchange may take"));
  }
}

void ExpertDispatcher::stop() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopped = true;
  }
  expire(*state_, Instant::max());
}

std::vector<std::vector<std::int64_t>> ExpertDispatcher::routed() const {
  std::vector<std::vector<std::int64_t>> routed;
  for (ExpertTraffic& layer : traffic()) {
    routed.push_back(std::move(layer.experts));
  }
  return routed;
}

std::vector<ExpertTraffic> ExpertDispatcher::traffic() const {
  const std::lock_guard lock(state_->mutex);
  return state_->traffic;
}

}  // namespace shoal
