// The exchange is made first and stops last.
#include "actors/expert_node.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "actors/expert_host.h"
#include "actors/expert_metrics.h"
#include "actors/expert_shards.h"
#include "actors/expert_source.h"
#include "transport/registry.h"

namespace shoal {
namespace {

Result<std::unique_ptr<transport::ExpertExchange>> open_exchange(const ExpertNodeSetup& setup) {
  transport::ExpertLimits limits;
  limits.in_flight = Bytes{setup.config.in_flight_bytes()};
  limits.waiting = limits.in_flight;
  limits.answer = std::chrono::milliseconds(setup.config.exchange_ms());
  return transport::open_expert_exchange(
      "shards",
      {.self = setup.self, .timers = setup.timers, .transport = setup.transport, .limits = limits});
}

ExpertHostSetup host_setup(const ExpertNodeSetup& setup, const TopologyNode& node) {
  const std::vector<ExpertHome> ranks = expert_ranks(*setup.topology);
  const auto first = std::ranges::find(ranks, setup.self, &ExpertHome::node);
  return {.shards = node.expert_shards,
          .first_rank = static_cast<std::uint32_t>(first - ranks.begin()),
          .weights = Bytes{setup.config.weights_bytes()},
          .background = setup.background};
}

}  // namespace

Result<std::unique_ptr<ExpertNode>> ExpertNode::open(const ExpertNodeSetup& setup) {
  auto self = std::unique_ptr<ExpertNode>(new ExpertNode());
  if (setup.topology != nullptr && has_expert_nodes(*setup.topology)) {
    TRY_VOID(self->open_remote(setup));
    return self;
  }
  ExpertNodeSetup alone = setup;
  alone.self = {};
  alone.transport = nullptr;
  TRY(auto exchange, open_exchange(alone));
  TRY(self->shards_,
      ExpertShards::open({.shards = setup.config.shards(),
                          .redundant = setup.config.redundant(),
                          .weights = Bytes{setup.config.weights_bytes()},
                          .limit = std::chrono::milliseconds(setup.config.exchange_ms())},
                         setup.make_engine,
                         std::move(exchange),
                         setup.executor));
  return self;
}

Result<void> ExpertNode::open_remote(const ExpertNodeSetup& setup) {
  const TopologyNode& node = setup.topology->nodes.at(setup.self.value);
  TRY(exchange_, open_exchange(setup));
  if (node.roles.experts) {
    host_ = std::make_unique<ExpertHost>(
        host_setup(setup, node), setup.make_engine, *exchange_, setup.executor);
  }
  if (node.roles.has_device()) {
    // What the model is, an engine knows.
    TRY(const auto probe, setup.make_engine({}));
    TRY(source_,
        ExpertSource::open(
            {.ranks = expert_ranks(*setup.topology),
             .redundant = setup.config.redundant(),
             .limits = {.exchange = std::chrono::milliseconds(setup.config.exchange_ms()),
                        .message = transport::TransportLimits{}.message,
                        .waits = true},
             .placer = {setup.self.value, setup.topology->nodes.size()}},
            probe->model(),
            *exchange_,
            setup.timers));
  }
  return {};
}

ExpertNode::~ExpertNode() {
  stop();
}

ExpertParts ExpertNode::parts() const {
  return {shards_.get(), host_.get(), source_.get()};
}

kernels::ExchangeRunner ExpertNode::runner() {
  return shards_ != nullptr ? shards_->runner() : source_->runner();
}

void ExpertNode::stop() {
  if (shards_ != nullptr) {
    shards_->stop();
  }
  if (source_ != nullptr) {
    source_->stop();
  }
  if (exchange_ != nullptr) {
    exchange_->stop();
  }
}

transport::ExpertExchange::Use ExpertNode::exchange_use() const {
  return shards_ != nullptr ? shards_->exchange_use() : exchange_->use();
}

kernels::ExpertEngineUse ExpertNode::use(std::uint32_t shard) const {
  return shards_ != nullptr ? shards_->use(shard) : host_->use(shard);
}

bool ExpertNode::loading() const {
  return host_ != nullptr && host_->loading() > 0;
}

std::string ExpertNode::metrics_text() const {
  std::string text;
  if (shards_ != nullptr) {
    text += expert_text(*shards_);
  }
  if (source_ != nullptr) {
    text += expert_text(*source_);
  }
  if (host_ != nullptr) {
    text += (source_ == nullptr ? expert_text(exchange_->use()) : "") + expert_text(*host_);
  }
  return text;
}

}  // namespace shoal
