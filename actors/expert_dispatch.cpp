// One pass over the pairs of rows and experts in row order fills the parts; a second one, when they
// came back, puts the outputs where the pairs are.
#include "actors/expert_dispatch.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>

namespace shoal {

// A placement, and what is derived from it once. Splits are not for several threads: under the
// dispatcher's lock.
struct ExpertDispatcher::Routing {
  struct Layer {
    Layer(const ExpertLayer& layer)
        : shape(layer.shape),
          replicas(layer.shape, layer.expert_at),
          split(expert_splits().front().make(
              layer.shape,
              layer.expert_at,
              layer.loads.empty()
                  ? std::vector<double>(static_cast<std::size_t>(layer.shape.experts), 1.0)
                  : layer.loads)) {}

    ExpertShape shape;
    ReplicaIndex replicas;
    std::unique_ptr<ExpertSplit> split;
  };

  EpochId epoch;
  std::vector<Layer> layers;
};

// What goes to each rank.
struct ExpertDispatcher::Plan {
  struct Part {
    std::vector<std::int64_t> rows;   // of the exchange, each once
    std::vector<std::int64_t> pairs;  // row * top_k + choice
    std::vector<std::int32_t> row;    // of each pair, in `rows`
    std::vector<std::int32_t> slot;   // of each pair, of the rank
  };

  std::shared_ptr<const Routing> routing;
  std::vector<Part> ranks;
};

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

ExpertDispatcher::ExpertDispatcher(transport::ExpertExchange& exchange,
                                   std::vector<ExpertHome> ranks,
                                   std::function<Instant()> now,
                                   Nanos limit)
    : exchange_(exchange),
      ranks_(std::move(ranks)),
      now_(std::move(now)),
      limit_(limit) {}

ExpertDispatcher::~ExpertDispatcher() = default;

Result<void> ExpertDispatcher::publish(ExpertPlacementMap map) {
  auto routing = std::make_shared<Routing>();
  routing->epoch = map.epoch;
  for (std::size_t i = 0; i < map.layers.size(); ++i) {
    const ExpertLayer& layer = map.layers[i];
    if (layer.shape.ranks != static_cast<std::int32_t>(ranks_.size()) ||
        !serves_all(layer.shape, layer.expert_at)) {
      return fail(Code::kInvalid,
                  "placement of experts, layer " + std::to_string(i) +
                      ": an expert has no slot, or there are other ranks");
    }
    routing->layers.emplace_back(layer);
  }
  std::shared_ptr<Routing> old;  // let go without the lock
  const std::lock_guard lock(mutex_);
  traffic_.resize(std::max(traffic_.size(), routing->layers.size()));
  for (std::size_t i = 0; i < routing->layers.size(); ++i) {
    traffic_[i].experts.resize(static_cast<std::size_t>(routing->layers[i].shape.experts));
    traffic_[i].ranks.resize(ranks_.size());
  }
  old = std::exchange(routing_, std::move(routing));
  before_ = old;
  return {};
}

bool ExpertDispatcher::is_settled() const {
  const std::lock_guard lock(mutex_);
  return before_.expired();
}

// With a placement published.
ExpertDispatcher::Plan ExpertDispatcher::plan(const kernels::Exchange& exchange) {
  const std::lock_guard lock(mutex_);
  Routing::Layer& layer = routing_->layers.at(static_cast<std::size_t>(exchange.layer));
  ExpertTraffic& traffic = traffic_[static_cast<std::size_t>(exchange.layer)];
  const std::int64_t pairs = exchange.rows * exchange.top_k;
  std::vector<std::int32_t> counts(static_cast<std::size_t>(layer.shape.experts));
  for (std::int64_t i = 0; i < pairs; ++i) {
    ++counts[static_cast<std::size_t>(exchange.experts[i])];
  }
  ++traffic.exchanges;
  std::transform(traffic.experts.begin(),
                 traffic.experts.end(),
                 counts.begin(),
                 traffic.experts.begin(),
                 std::plus<>());
  std::vector<std::int32_t> left(static_cast<std::size_t>(layer.shape.all_slots()));
  layer.split->split(counts, left);

  Plan plan{routing_, std::vector<Plan::Part>(ranks_.size())};
  for (std::int64_t i = 0; i < pairs; ++i) {
    const auto slots = layer.replicas.slots_of(exchange.experts[i]);
    const std::int32_t slot = *std::ranges::find_if(
        slots, [&left](std::int32_t s) { return left[static_cast<std::size_t>(s)] > 0; });
    --left[static_cast<std::size_t>(slot)];
    Plan::Part& part = plan.ranks[static_cast<std::size_t>(layer.shape.rank_of(slot))];
    if (const std::int64_t row = i / exchange.top_k; part.rows.empty() || part.rows.back() != row) {
      part.rows.push_back(row);
    }
    part.pairs.push_back(i);
    part.row.push_back(static_cast<std::int32_t>(part.rows.size()) - 1);
    part.slot.push_back(slot % layer.shape.slots);
  }
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    traffic.ranks[rank] += std::ssize(plan.ranks[rank].pairs);
  }
  return plan;
}

void ExpertDispatcher::run(kernels::Exchange& exchange,
                           std::function<void(Result<void>)> complete) {
  {
    const std::lock_guard lock(mutex_);
    if (routing_ == nullptr) {
      return complete(fail(Code::kUnavailable, "no placement of the experts is known yet"));
    }
  }
  Plan plan = this->plan(exchange);
  const EpochId epoch = plan.routing->epoch;
  transport::ExpertExchange::Dispatch dispatch{
      .epoch = epoch, .deadline = now_() + limit_, .parts = {}};
  std::vector<std::vector<std::int64_t>> pairs;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    Plan::Part& part = plan.ranks[rank];
    if (part.pairs.empty()) {
      continue;
    }
    const transport::ExpertBatchShape shape{.shard = ranks_[rank].shard,
                                            .epoch = epoch,
                                            .layer = exchange.layer,
                                            .dim = exchange.dim,
                                            .rows = static_cast<std::int64_t>(part.rows.size()),
                                            .pairs = static_cast<std::int64_t>(part.pairs.size())};
    dispatch.parts.push_back(
        {ranks_[rank].node, batch_of(shape, exchange, part.rows, part.pairs, part.row, part.slot)});
    pairs.push_back(std::move(part.pairs));
  }
  exchange_.dispatch(
      std::move(dispatch),
      [&exchange,
       pairs = std::move(pairs),
       complete = std::move(complete),
       routing = std::move(plan.routing)](Result<std::vector<transport::ExpertOutputs>> outputs) {
        if (!outputs) {
          return complete(tl::unexpected(std::move(outputs).error()));
        }
        for (std::size_t i = 0; i < pairs.size(); ++i) {
          put_outputs(exchange, pairs[i], (*outputs)[i]);
        }
        complete({});
      });
}

std::vector<std::vector<std::int64_t>> ExpertDispatcher::routed() const {
  std::vector<std::vector<std::int64_t>> routed;
  for (ExpertTraffic& layer : traffic()) {
    routed.push_back(std::move(layer.experts));
  }
  return routed;
}

std::vector<ExpertTraffic> ExpertDispatcher::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

}  // namespace shoal
