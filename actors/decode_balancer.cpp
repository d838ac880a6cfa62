// Places the handed-over sequences of one router on decode ranks, in order of arrival, as long as a
// batch has room and memory, and moves running ones where that pays.
#include "actors/decode_balancer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/placement.h"
#include "actors/policy/avoidance.h"
#include "actors/policy/decode_balancer.h"
#include "actors/policy/decode_moves.h"
#include "actors/policy/decode_policies.h"

namespace shoal {
namespace {

// A rank that does not answer a request to move an answer by then keeps it.
constexpr Nanos kMoveAwaited = std::chrono::seconds(10);
// Answers that are asked to leave nodes that drain, at once.
constexpr std::int64_t kMostLeaving = 16;
// How fast the mean of steps that answers take follows: one part in so many.
constexpr std::int64_t kMeanWeight = 16;

struct DecodeBalancer {
  static inline const char* name = "decode_balancer";

  // What this part knows of one node's group.
  struct Site {
    std::uint64_t session = 0;
    DecodeLoad load;                    // its last report
    std::deque<AttemptKey> on_the_way;  // sent, and not in the report yet
    std::uint64_t sent = 0;
    Instant avoided_until = Instant::min();
  };

  // A rank of the whole cluster, in the order the policy sees it.
  struct Place {
    NodeId node;
    std::uint32_t rank = 0;

    friend bool operator==(const Place&, const Place&) = default;
  };

  // Where an answer was asked to go: its place is kept there.
  struct Move {
    SiteRef site;
    std::uint32_t rank = 0;
    Instant asked{};
  };

  struct Placed {
    SiteRef site;
    std::uint32_t rank = 0;
    Handover handover;        // without its KV: a lease must end with the sequence
    std::uint64_t steps = 0;  // its node's, when it was sent
    Instant since{};
    std::optional<Move> move{};
  };

  PartSeat seat;
  std::optional<CostModel> cost;
  std::unique_ptr<DecodePolicy> policy;
  std::int64_t mean_steps = 0;  // of answers that left, times kMeanWeight
  Instant next_move{};
  std::deque<Handover> queue;
  std::vector<Site> sites;  // by NodeId
  // A part is wired after those that follow it, so this node's group may report before that.
  std::optional<DecodeLoad> early;
  std::map<AttemptKey, Placed> placed;

  void start(ContextPtr node, std::uint32_t part);
  void place(const PlaceDecode& message);
  void release(const ReleaseAttempt& message);
  void left(const DecodeLeft& message);
  void refused(const DecodeRefused& message);
  void kept(const DecodeKept& message);
  void report(const DecodeLoad& message);
  void rewire(const Rewire& message);

  bool drains(NodeId node) const { return seat.wiring->at(node).draining; }

  void dispatch();
  static DecodeNeed need_of(const Handover& waiting, const std::vector<Place>& places);
  static std::size_t index_of(const std::vector<Place>& places, const Place& place);
  std::int64_t grown(const Placed& entry) const;
  std::vector<DecodeRank> ranks(std::vector<Place>& places) const;
  std::vector<DecodeRank> open_to(const Handover& waiting,
                                  std::vector<DecodeRank> ranks,
                                  const std::vector<Place>& places) const;
  void count_placed(const std::vector<std::size_t>& first, std::vector<DecodeRank>& ranks) const;
  void count_on_the_way(const std::vector<std::size_t>& first,
                        std::vector<DecodeRank>& ranks) const;
  void refuse_too_large(const Handover& waiting) const;
  void send(Handover handover, const Place& place, Nanos step);

  bool go_on(const Handover& handover);
  void forget_moves();
  void move_one();
  void leave_draining();
  void ask(const AttemptKey& key, const Place& to, const DecodeMove& move);
};

void DecodeBalancer::start(ContextPtr node, std::uint32_t part) {
  seat = {.part = part, .node = std::move(node)};
  cost.emplace(seat.node->options.decode_cost);
  policy = seat.node->options.decode_policy->make(*cost, part);
}

// One that moves is not refused for a full queue: it was let in before.
void DecodeBalancer::place(const PlaceDecode& message) {
  if (go_on(message.handover)) {
    return;
  }
  if (queue.size() >= seat.node->options.decode_queue) {
    notify(seat.wiring->here().router,
           AttemptRefused{message.handover.key(),
                          Error{Code::kNoCapacity, "too many answers wait for a place in decode"},
                          std::chrono::seconds(1),
                          {{"why", std::string("queue_full")}, {"queued", std::ssize(queue)}}});
    return;
  }
  queue.push_back(message.handover);
  dispatch();
}

// Behind the hand-over on the same path, in case it went to a group already. An attempt that this
// part never placed may be with any group.
void DecodeBalancer::release(const ReleaseAttempt& message) {
  const auto waits = std::find_if(queue.begin(), queue.end(), [&message](const Handover& waiting) {
    return waiting.key() == message.key;
  });
  if (waits != queue.end()) {
    queue.erase(waits);
  } else if (const auto place = placed.find(message.key); place != placed.end()) {
    if (message.failed) {
      sites[place->second.site.node.value].avoided_until = seat.node->now() + kAvoided;
    }
    if (!seat.wiring->lost(place->second.site)) {
      notify(seat.wiring->at(place->second.site.node).decode_group, message);
    }
    placed.erase(place);
  } else {
    for (const NodeParts& node : seat.wiring->nodes) {
      notify(node.decode_group, message);
    }
  }
  dispatch();
}

void DecodeBalancer::left(const DecodeLeft& message) {
  for (const AttemptKey& key : message.keys) {
    if (const auto entry = placed.find(key); entry != placed.end()) {
      const std::int64_t steps = grown(entry->second);
      mean_steps =
          mean_steps == 0 ? steps * kMeanWeight : mean_steps + steps - mean_steps / kMeanWeight;
      placed.erase(entry);
    }
  }
  dispatch();
}

void DecodeBalancer::kept(const DecodeKept& message) {
  const auto entry = placed.find(message.key);
  if (entry != placed.end() && entry->second.site.node == message.node) {
    entry->second.move.reset();
  }
}

// The memory that the report promised went to somebody else: first in the queue again.
void DecodeBalancer::refused(const DecodeRefused& message) {
  const auto place = placed.find(message.key);
  if (place != placed.end() && place->second.site == seat.wiring->site(message.node)) {
    queue.push_front(std::move(place->second.handover));
    placed.erase(place);
    for (DecodeRankLoad& rank : sites[message.node.value].load.ranks) {
      rank.room = {};  // until its next report
    }
    dispatch();
  }
}

void DecodeBalancer::report(const DecodeLoad& message) {
  if (sites.empty()) {
    early = message;
    return;
  }
  if (message.node.value >= sites.size()) {
    return;
  }
  Site& site = sites[message.node.value];
  if (message.received > site.sent) {
    return;  // of a session that this part has not heard of yet
  }
  site.load = message;
  if (message.cost.steps > 0) {
    cost.emplace(message.cost.coefficients);
    policy->learn(*cost);
  }
  while (site.on_the_way.size() > site.sent - message.received) {
    site.on_the_way.pop_front();
  }
  dispatch();
  leave_draining();
  move_one();
}

void DecodeBalancer::rewire(const Rewire& message) {
  seat.wiring = message.wiring;
  sites.resize(seat.wiring->nodes.size());
  for (std::size_t n = 0; n < sites.size(); ++n) {
    if (sites[n].session != seat.wiring->nodes[n].session) {
      sites[n] = Site{.session = seat.wiring->nodes[n].session, .load = {}, .on_the_way = {}};
    }
  }
  std::erase_if(placed, [this](const auto& entry) { return seat.wiring->lost(entry.second.site); });
  forget_moves();
  if (const auto load = std::exchange(early, std::nullopt)) {
    report(*load);
  }
  dispatch();
  leave_draining();
}

// Ranks that have reported, with what is on the way to them.
std::vector<DecodeRank> DecodeBalancer::ranks(std::vector<Place>& places) const {
  std::vector<DecodeRank> ranks;
  std::vector<std::size_t> first(sites.size());
  for (std::uint32_t n = 0; n < sites.size(); ++n) {
    first[n] = ranks.size();
    for (std::uint32_t r = 0; r < sites[n].load.ranks.size(); ++r) {
      const DecodeRankLoad& load = sites[n].load.ranks[r];
      ranks.push_back({.alive = static_cast<bool>(seat.wiring->nodes[n].decode_group),
                       .device = static_cast<std::uint32_t>(ranks.size()),
                       .live = load.others,
                       .kv_tokens = load.others_tokens,
                       .room = load.room,
                       .blocks = load.blocks,
                       .avoided = drains(NodeId{n}) || seat.node->now() < sites[n].avoided_until});
      places.push_back({NodeId{n}, r});
    }
  }
  count_placed(first, ranks);
  count_on_the_way(first, ranks);
  return ranks;
}

// Until it has reported: nowhere.
std::size_t DecodeBalancer::index_of(const std::vector<Place>& places, const Place& place) {
  return static_cast<std::size_t>(std::find(places.begin(), places.end(), place) - places.begin());
}

// Tokens that an answer got since it was placed, in the mean.
std::int64_t DecodeBalancer::grown(const Placed& entry) const {
  const std::uint64_t now = sites[entry.site.node.value].load.steps;
  return static_cast<std::int64_t>(now - std::min(now, entry.steps));
}

// An answer that moves counts where it goes.
void DecodeBalancer::count_placed(const std::vector<std::size_t>& first,
                                  std::vector<DecodeRank>& ranks) const {
  for (const auto& [key, entry] : placed) {
    const NodeId node = entry.move ? entry.move->site.node : entry.site.node;
    const std::size_t index = first[node.value] + (entry.move ? entry.move->rank : entry.rank);
    if (index < ranks.size()) {
      ++ranks[index].live;
      ranks[index].kv_tokens += entry.handover.position + grown(entry);
      if (entry.move) {
        ranks[index].room.blocks -= entry.handover.placement->blocks;
        --ranks[index].room.sequences;
      }
    }
  }
}

void DecodeBalancer::count_on_the_way(const std::vector<std::size_t>& first,
                                      std::vector<DecodeRank>& ranks) const {
  for (std::size_t n = 0; n < sites.size(); ++n) {
    for (const AttemptKey& key : sites[n].on_the_way) {
      const auto place = placed.find(key);
      if (place != placed.end() && place->second.handover.buffer.value != 0) {
        const std::size_t index = first[n] + place->second.rank;
        if (index < ranks.size()) {
          ranks[index].room.blocks -= place->second.handover.placement->blocks;
          --ranks[index].room.sequences;
        }
      }
    }
  }
}

// As the answer may see them. To a node that drains goes what cannot be taken from it, or was
// decoded before: new ones come with one token.
std::vector<DecodeRank> DecodeBalancer::open_to(const Handover& waiting,
                                                std::vector<DecodeRank> ranks,
                                                const std::vector<Place>& places) const {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const bool goes_on = waiting.kv || waiting.answered > 1 ||
                         goes_on_at(*waiting.placement->submission, places[i].node);
    ranks[i].alive = ranks[i].alive && (goes_on || !drains(places[i].node));
  }
  return ranks;
}

// Nobody can take the one that waits longest but a node that drains: those behind it may go on.
void DecodeBalancer::dispatch() {
  std::vector<Place> places;
  std::vector<DecodeRank> now = ranks(places);
  for (std::size_t next = 0; next < queue.size();) {
    const DecodeNeed need = need_of(queue[next], places);
    const auto at = queue.begin() + static_cast<std::ptrdiff_t>(next);
    if (fits_nowhere(now, need)) {
      refuse_too_large(*at);
      queue.erase(at);
      continue;
    }
    const std::vector<DecodeRank> open = open_to(*at, now, places);
    const DecodePlacement placement = policy->place(open, need, seat.node->options.decode_batch);
    if (placement.choice) {
      Handover handover = std::move(*at);
      queue.erase(at);
      send(std::move(handover), places[placement.choice->rank], placement.choice->step);
      places.clear();
      now = ranks(places);
    } else if (placement.refusal == DecodeRefusal::kNoRoom) {
      break;
    } else {
      ++next;
    }
  }
  seat.node->metrics.decode_queued = static_cast<std::int64_t>(queue.size());
  seat.node->metrics.decode_live = static_cast<std::int64_t>(placed.size());
}

// KV that is in this process stays where it is, and the worst case that was reserved before prefill
// moves along.
DecodeNeed DecodeBalancer::need_of(const Handover& waiting, const std::vector<Place>& places) {
  DecodeNeed need{.device = {},
                  .blocks = waiting.placement->blocks,
                  .tokens = waiting.position,
                  .tie = waiting.placement->submission->request.value};
  if (waiting.kv) {
    need.blocks = 0;
    need.device = static_cast<std::uint32_t>(index_of(places, {waiting.node, waiting.rank}));
  }
  return need;
}

void DecodeBalancer::refuse_too_large(const Handover& waiting) const {
  notify(
      seat.wiring->here().router,
      AttemptRefused{waiting.key(),
                     Error{Code::kUnavailable,
                           "the answer may need " + std::to_string(waiting.placement->blocks) +
                               " KV blocks, more than any decode node that is up has: lower "
                               "max_tokens or shorten the prompt"},
                     {},
                     {{"why", std::string("cannot_fit")}, {"blocks", waiting.placement->blocks}}});
}

void DecodeBalancer::send(Handover handover, const Place& place, Nanos step) {
  const AttemptKey key = handover.key();
  const SiteRef site = seat.wiring->site(place.node);
  Placed& entry = placed[key];
  entry = {.site = site,
           .rank = place.rank,
           .handover = handover,
           .steps = sites[place.node.value].load.steps,
           .since = seat.node->now()};
  entry.handover.kv = nullptr;
  sites[place.node.value].on_the_way.push_back(key);
  ++sites[place.node.value].sent;
  ++seat.progress;
  seat.node->log.event(
      LogLevel::kDebug,
      "decode.placed",
      {{"request", key.request}, {"node", place.node}, {"rank", place.rank}, {"step_ns", step}});
  notify(seat.wiring->here().router, DecodePlaced{key, site, step});
  notify(seat.wiring->at(place.node).decode_group, JoinDecode{std::move(handover), place.rank, {}});
}

// False: it is not one that was asked to move.
bool DecodeBalancer::go_on(const Handover& handover) {
  const auto entry = placed.find(handover.key());
  if (entry == placed.end()) {
    return false;
  }
  const std::optional<Move> move = entry->second.move;
  placed.erase(entry);
  std::vector<Place> places;
  const std::vector<DecodeRank> now = ranks(places);
  const std::size_t to = move && !seat.wiring->lost(move->site)
                             ? index_of(places, {move->site.node, move->rank})
                             : places.size();
  if (to < places.size()) {
    const DecodeNeed need{
        .device = {}, .blocks = handover.placement->blocks, .tokens = handover.position};
    send(handover, places[to], step_with(now[to], need, *cost));
  } else {
    queue.push_front(handover);
    dispatch();
  }
  return true;
}

void DecodeBalancer::forget_moves() {
  const Instant now = seat.node->now();
  for (auto& [key, entry] : placed) {
    if (entry.move &&
        (seat.wiring->lost(entry.move->site) || now >= entry.move->asked + kMoveAwaited)) {
      entry.move.reset();
    }
  }
}

// Nobody waits for a place, so balance is all that is left to gain. A node of its own has nothing
// to move KV with.
void DecodeBalancer::move_one() {
  const Instant now = seat.node->now();
  if (!seat.node->options.decode_policy->moves || seat.wiring->nodes.size() == 1 ||
      !queue.empty() || now < next_move) {
    return;
  }
  next_move = now + seat.node->options.decode_move_pause;
  std::vector<Place> places;
  const std::vector<DecodeRank> state = ranks(places);
  std::vector<DecodeAnswer> answers;
  std::vector<AttemptKey> keys;
  for (const auto& [key, entry] : placed) {
    if (!entry.move && now >= entry.since + seat.node->options.decode_move_pause) {
      keys.push_back(key);
      answers.push_back({.rank = index_of(places, {entry.site.node, entry.rank}),
                         .tokens = entry.handover.position + grown(entry),
                         .steps = mean_steps / kMeanWeight,
                         .blocks = entry.handover.placement->blocks});
    }
  }
  const auto move = pick_move(
      state, answers, *cost, seat.node->options.decode_batch, seat.node->options.decode_move);
  if (move) {
    ask(keys[move->answer], places[move->to], *move);
  }
}

// Answers of a node that drains go where there is room, whatever it costs; those for which there is
// none end where they are.
void DecodeBalancer::leave_draining() {
  forget_moves();
  std::int64_t moving = std::count_if(placed.begin(), placed.end(), [](const auto& entry) {
    return entry.second.move.has_value();
  });
  std::int64_t tried = 0;
  for (auto& [key, entry] : placed) {
    if (moving >= kMostLeaving || tried >= kMostLeaving) {
      return;
    }
    if (entry.move || !drains(entry.site.node)) {
      continue;
    }
    ++tried;
    std::vector<Place> places;
    std::vector<DecodeRank> others = ranks(places);
    for (std::size_t i = 0; i < others.size(); ++i) {
      others[i].alive = others[i].alive && !drains(places[i].node);
    }
    const DecodeNeed need{.device = {},
                          .blocks = entry.handover.placement->blocks,
                          .tokens = entry.handover.position,
                          .tie = key.request.value};
    const DecodePlacement placement = policy->place(others, need, seat.node->options.decode_batch);
    if (!placement.choice) {
      continue;
    }
    ask(key, places[placement.choice->rank], {});
    ++moving;
  }
}

void DecodeBalancer::ask(const AttemptKey& key, const Place& to, const DecodeMove& move) {
  Placed& entry = placed.at(key);
  entry.move = Move{seat.wiring->site(to.node), to.rank, seat.node->now()};
  ++seat.progress;
  seat.node->log.event(LogLevel::kDebug,
                       "decode.moving",
                       {{"request", key.request},
                        {"from", entry.site.node},
                        {"node", to.node},
                        {"gain_ns", move.gain},
                        {"cost_ns", move.cost}});
  notify(seat.wiring->here().router, DecodeMoving{key, to.node, move.gain, move.cost});
  notify(seat.wiring->at(entry.site.node).decode_group, MoveDecode{key});
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
      [self](const DecodeRefused& m) { self->state.refused(m); },
      [self](const DecodeKept& m) { self->state.kept(m); },
      [self](const DecodeLoad& m) { self->state.report(m); },
  };
}

}  // namespace

DecodeBalancerActor spawn_decode_balancer(caf::actor_system& system,
                                          ContextPtr node,
                                          std::uint32_t part) {
  return system.spawn(decode_balancer, std::move(node), part);
}

}  // namespace shoal
