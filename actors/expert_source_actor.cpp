// What shards serve is the source's to know (expert_source.h); here are messages and wiring.
#include "actors/expert_source_actor.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/expert_source.h"

namespace shoal {
namespace {

struct Source {
  static inline const char* name = "expert_source";

  PartSeat seat;
  EpochId told_epoch;        // of the placement in force
  std::string told_trouble;  // in the log

  ExpertSource& source() const { return *seat.node->experts.source; }

  void start(const ExpertSourceActor& me);
  void rewire(const Rewire& message);
  void held(const ExpertsHeld& message);
  void count(const CountExperts& message) const;
  void ping();
  void send_orders();
  void tell_log();
};

void Source::start(const ExpertSourceActor& me) {
  source().on_orders([weak = caf::actor_cast<caf::weak_actor_ptr>(me)] {
    if (const auto strong = weak.lock()) {
      notify(caf::actor_cast<ExpertSourceActor>(strong), ExpertsDue{});
    }
  });
  source().doubt();
}

// A shard behind a new session, or its successor here, says what it holds.
void Source::rewire(const Rewire& message) {
  const WiringPtr before = std::exchange(seat.wiring, message.wiring);
  std::vector<std::size_t> lost;
  std::vector<NodeId> nodes;
  const std::vector<ExpertHome>& ranks = source().ranks();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const ExpertHome& home = ranks[rank];
    const auto& shards_before = before->at(home.node).expert_shards;
    const auto& shards = seat.wiring->at(home.node).expert_shards;
    const bool is_same = home.shard < shards_before.size() && home.shard < shards.size() &&
                         shards_before[home.shard] == shards[home.shard];
    if (seat.wiring->lost(before->site(home.node)) || !is_same) {
      lost.push_back(rank);
    }
    if (home.node != seat.wiring->self && seat.wiring->lost(before->site(home.node)) &&
        std::ranges::find(nodes, home.node) == nodes.end()) {
      nodes.push_back(home.node);
    }
  }
  if (!lost.empty()) {
    source().lost(lost);
  }
  for (const NodeId node : nodes) {
    source().lose(node);
  }
  tell_log();
}

void Source::held(const ExpertsHeld& message) {
  const std::vector<ExpertHome>& ranks = source().ranks();
  const auto rank = std::ranges::find_if(ranks, [&message](const ExpertHome& home) {
    return home.node == message.node && home.shard == message.shard;
  });
  if (rank == ranks.end()) {
    return;
  }
  ++seat.progress;
  if (message.refusal) {
    seat.node->log.event(LogLevel::kError,
                         "experts.refused",
                         {{"shard_node", message.node},
                          {"shard", message.shard},
                          {"epoch", message.held},
                          {"reason", message.refusal->message}});
  }
  const auto place = static_cast<std::size_t>(rank - ranks.begin());
  source().uses(place, message.use);
  source().told(place,
                {message.held, message.served, message.before, message.map, message.refusal});
  tell_log();
}

// On the page of this node, what its own steps gave to the experts.
void Source::count(const CountExperts& message) const {
  auto report = std::make_shared<ExpertReport>(source().report(message.known, message.counts));
  report->node = seat.wiring->self;
  if (message.counts) {
    seat.node->expert_board.saw_window(report->traffic);
  }
  const NodeId owner = seat.node->cluster->topology.owner;
  notify(seat.wiring->at(owner).ep_balancer, ExpertLoads{std::move(report)});
}

void Source::ping() {
  source().tick(seat.node->now());
  seat.answer_ping(false, source().trouble());
}

void Source::send_orders() {
  for (const ExpertRollout::Order& order : source().take_orders()) {
    const ExpertHome& home = source().ranks()[order.rank];
    const auto& shards = seat.wiring->at(home.node).expert_shards;
    if (home.shard < shards.size()) {
      notify(shards[home.shard], HoldExperts{order.map, order.serves, seat.wiring->self});
    }
  }
}

void Source::tell_log() {
  const ExpertMapPtr placement = source().placement();
  if (placement != nullptr && placement->epoch != told_epoch) {
    told_epoch = placement->epoch;
    seat.node->log.event(LogLevel::kInfo, "experts.placed", {{"epoch", told_epoch}});
  }
  const std::string trouble = source().trouble();
  if (trouble != told_trouble) {
    told_trouble = trouble;
    seat.node->log.event(
        LogLevel::kInfo, trouble.empty() ? "experts.whole" : "experts.away", {{"reason", trouble}});
  }
}

ExpertSourceActor::behavior_type expert_source(ExpertSourceActor::stateful_pointer<Source> self,
                                               ContextPtr node,
                                               std::uint32_t part) {
  self->state.seat = {.part = part, .node = std::move(node)};
  self->state.start(self);
  return {
      [self](const Rewire& m) { self->state.rewire(m); },
      [self](const Ping&) { self->state.ping(); },
      [self](const ExpertsHeld& m) { self->state.held(m); },
      [self](const ExpertsDue&) {
        self->state.send_orders();
        self->state.tell_log();
      },
      [self](const CountExperts& m) { self->state.count(m); },
      [self](const PlaceExperts& m) {
        self->state.source().take(*m.order, self->state.seat.node->now());
      },
  };
}

}  // namespace

ExpertSourceActor spawn_expert_source(caf::actor_system& system,
                                      ContextPtr node,
                                      std::uint32_t part) {
  return system.spawn(expert_source, std::move(node), part);
}

}  // namespace shoal
