// Places handed-over sequences on decode ranks, in order of arrival, as long as a batch has room.
#include "actors/decode_balancer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/policy/decode_balancer.h"

namespace shoal {
namespace {

struct DecodeBalancer {
  static inline const char* name = "decode_balancer";

  struct Placed {
    std::size_t rank = 0;
    Position tokens = 0;
  };

  PartSeat seat;
  std::optional<CostModel> cost;
  std::deque<Handover> queue;
  std::map<AttemptKey, Placed> placed;

  void start(ContextPtr node, std::uint32_t part);
  void place(const PlaceDecode& message);
  void release(const ReleaseAttempt& message);
  void left(const DecodeLeft& message);
  void rewire(const Rewire& message);

  void dispatch();
  std::vector<DecodeRank> ranks() const;
  void send(Handover handover, const DecodeChoice& choice);
};

void DecodeBalancer::start(ContextPtr node, std::uint32_t part) {
  seat = {.part = part, .node = std::move(node)};
  cost.emplace(seat.node->options.decode_cost);
}

void DecodeBalancer::place(const PlaceDecode& message) {
  if (queue.size() >= seat.node->options.decode_queue) {
    notify(seat.wiring->router,
           AttemptRefused{message.handover.key(),
                          Error{Code::kNoCapacity, "too many answers wait for a place in decode"},
                          std::chrono::seconds(1)});
    return;
  }
  queue.push_back(message.handover);
  dispatch();
}

// Behind the hand-over on the same path, in case it went to the group already.
void DecodeBalancer::release(const ReleaseAttempt& message) {
  std::erase_if(queue,
                [&message](const Handover& waiting) { return waiting.key() == message.key; });
  placed.erase(message.key);
  notify(seat.wiring->decode_group, message);
  dispatch();
}

void DecodeBalancer::left(const DecodeLeft& message) {
  for (const AttemptKey& key : message.keys) {
    placed.erase(key);
  }
  dispatch();
}

void DecodeBalancer::rewire(const Rewire& message) {
  seat.wiring = message.wiring;
  dispatch();
}

std::vector<DecodeRank> DecodeBalancer::ranks() const {
  std::vector<DecodeRank> ranks(seat.node->devices.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].alive = static_cast<bool>(seat.wiring->decode_group);
    ranks[r].device = static_cast<std::uint32_t>(r);
    ranks[r].free_blocks = seat.node->devices[r].backend->arena().free_blocks();
  }
  for (const auto& [key, place] : placed) {
    ++ranks[place.rank].live;
    ranks[place.rank].kv_tokens += place.tokens;
  }
  return ranks;
}

void DecodeBalancer::dispatch() {
  while (!queue.empty()) {
    const Handover& next = queue.front();
    // The worst case was reserved before prefill and moves along: nothing to reserve here.
    const DecodeNeed need{.device = next.device, .blocks = 0, .tokens = next.position};
    const auto choice = pick_decode_rank(ranks(), need, *cost, seat.node->options.decode_batch);
    if (!choice) {
      break;
    }
    Handover handover = std::move(queue.front());
    queue.pop_front();
    send(std::move(handover), *choice);
  }
  seat.node->metrics.decode_queued = static_cast<std::int64_t>(queue.size());
  seat.node->metrics.decode_live = static_cast<std::int64_t>(placed.size());
}

void DecodeBalancer::send(Handover handover, const DecodeChoice& choice) {
  const AttemptKey key = handover.key();
  const auto rank = static_cast<std::uint32_t>(choice.rank);
  placed[key] = {choice.rank, handover.position};
  ++seat.progress;
  seat.node->log.event(LogLevel::kDebug,
                       "decode.placed",
                       {{"request", key.request}, {"rank", rank}, {"step_ns", choice.step}});
  notify(seat.wiring->router, DecodePlaced{key, rank});
  notify(seat.wiring->decode_group, JoinDecode{std::move(handover), rank});
}

DecodeBalancerActor::behavior_type decode_balancer(
    DecodeBalancerActor::stateful_pointer<DecodeBalancer> self,
    ContextPtr node,
    std::uint32_t part) {
  self->state.start(std::move(node), part);
  return {
      [self](const Rewire& m) { self->state.rewire(m); },
      [self](const Ping&) { self->state.seat.answer_ping(!self->state.queue.empty()); },
      [self](const PlaceDecode& m) { self->state.place(m); },
      [self](const ReleaseAttempt& m) { self->state.release(m); },
      [self](const DecodeLeft& m) { self->state.left(m); },
  };
}

}  // namespace

DecodeBalancerActor spawn_decode_balancer(caf::actor_system& system,
                                          ContextPtr node,
                                          std::uint32_t part) {
  return system.spawn(decode_balancer, std::move(node), part);
}

}  // namespace shoal
