// Names and finds blocks itself; the store reads and writes on its own threads and calls back.
#include "actors/kv_client.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "actors/kv_damage.h"
#include "actors/kv_load.h"
#include "actors/kv_search.h"
#include "actors/placement.h"
#include "actors/policy/kv_quota.h"
#include "actors/tail_copy.h"

namespace shoal {
namespace {

// A store that did not answer is not asked for so long: requests are computed whole instead.
constexpr Nanos kAwayPause = std::chrono::seconds(5);
// So long after the store refused blocks health says so.
constexpr Nanos kRefusalShown = std::chrono::seconds(5);
// Others are told of new blocks no oftener: their stores do not look oftener either.
constexpr Nanos kNewsPause = std::chrono::milliseconds(100);

struct KvClient {
  static inline const char* name = "kv_client";

  PartSeat seat;
  KvClientActor me;
  transport::BlockStore* store = nullptr;
  std::uint64_t layout = 0;
  std::uint64_t numeric = 0;
  Instant away_until{};
  bool is_gone = false;     // the store says that its medium is away
  bool is_opening = false;  // it still reads what it has
  std::string refusal;      // why it took no block the last time that it did not
  Instant refused_at{};
  bool has_news = false;  // blocks became durable since others were told
  Instant told_at{};
  bool is_writable = true;
  bool is_cramped = false;
  KvDamage damage;
  std::map<AttemptKey, KvLoad> loads;  // as many as the prefill group takes
  std::map<AttemptKey, BlockKey>
      leases;  // last blocks of what attempts rely on; one per ledger entry
  KvQuota quota{KvQuotaLimits{}};
  TailKeeper kept{TailLimits{}};  // made here
  std::optional<KvSearch> search;

  void start(ContextPtr node, std::uint32_t part);
  void look_up(const LookUpKv& message);
  void closed(const KvClosed& message);
  void load(const LoadKv& message);
  void load_failed(const KvLoadFailed& message);
  void ask(const AttemptKey& key, KvLoad& load);
  void hedge(const KvHedge& message);
  void read(KvRead& message);
  void save(const StoreKv& message);
  void stored(const KvStored& message);
  void rewire(const Rewire& message);
  void tick();
  void tell_news() const;
  void store_tail(const StoreTail& message);
  void tail_kept(const TailKept& message);
  void tail_read(const TailRead& message);

  static bool is_away(Code code);
  BlockKey root_of(const std::string& tenant) const;
  std::optional<KvReason> why_not(const Submission& submission) const;
  void lease(const Submission& submission, const KvFound& found);
  void count_hit(const KvHit& hit) const;
  bool is_stored(const KvBlock& block) const;
  void ask_for_tail(const AttemptKey& key, const KvLoad& load);
  void finish(std::map<AttemptKey, KvLoad>::iterator load);
  void tell_shortened(const KvShortened& instead);
  void look_into(const KvLoad& load, const Error& error);
  void show_kept() const;
  void tell_damage(const transport::BlockStore::Use& use);
  std::string trouble() const;
};

void KvClient::start(ContextPtr node, std::uint32_t part) {
  seat = {.part = part, .node = std::move(node)};
  store = seat.node->kv.store;
  layout = text_digest(seat.node->shape.block_layout);
  numeric = text_digest(seat.node->shape.numeric_id);
  search.emplace(*store, reach_of(seat.node->shape));
  quota = KvQuota(seat.node->options.kv_quota);
  kept = TailKeeper(seat.node->options.tails);
}

BlockKey KvClient::root_of(const std::string& tenant) const {
  KvIdentity identity = seat.node->kv.identity;
  identity.tenant = tenant;
  return root_key(identity);
}

// What keeps from looking at all. The last attempt that a request has relies on nothing.
std::optional<KvReason> KvClient::why_not(const Submission& submission) const {
  if (submission.attempt.value >= seat.node->options.attempts) {
    return KvReason::kLastAttempt;
  }
  return seat.node->now() < away_until ? std::optional(KvReason::kStoreSilent) : std::nullopt;
}

void KvClient::look_up(const LookUpKv& message) {
  const Submission& submission = *message.submission;
  const auto names =
      std::make_shared<const KvNames>(name_blocks(root_of(submission.tenant), submission));
  KvFound found = find_nothing(submission, reach_of(seat.node->shape));
  if (const auto why = why_not(submission)) {
    found.why = *why;
  } else {
    const KvHit hit = search->find(submission, *names, seat.node->now());
    found = hit.found;
    if (found.why == KvReason::kNothingStored && (is_gone || is_opening)) {
      found.why = is_gone ? KvReason::kStoreAway : KvReason::kStoreOpening;
    }
    count_hit(hit);
  }
  found.names = names;
  lease(submission, found);
  seat.node->metrics.kv_misses += found.reuse.hit > 0 || found.tail ? 0 : 1;
  ++seat.progress;
  notify(seat.wiring->here().router, std::move(found));
}

// For as long as the attempt may live, unless it is closed before.
void KvClient::lease(const Submission& submission, const KvFound& found) {
  const auto blocks = static_cast<std::size_t>(found.reuse.hit / kBlockTokens);
  if (blocks > 0) {
    const BlockKey& last = found.names->keys[blocks - 1];
    store->hold(last, submission.deadline - seat.node->now());
    leases.insert_or_assign(found.key, last);
    seat.node->metrics.kv_leases = std::ssize(leases);
  }
}

void KvClient::closed(const KvClosed& message) {
  if (const auto lease = leases.extract(message.key)) {
    store->release(lease.mapped());
    seat.node->metrics.kv_leases = std::ssize(leases);
  }
}

// As old as its last block was, as sure as its least sure one.
void KvClient::count_hit(const KvHit& hit) const {
  if (hit.blocks.empty() && !hit.found.tail) {
    return;
  }
  const bool is_exact = std::all_of(hit.blocks.begin(), hit.blocks.end(), [](const auto& block) {
    return block.provenance == Provenance::kExact;
  });
  const auto tier = static_cast<std::size_t>(hit.found.tail ? KvTier::kTail : KvTier::kStore);
  const auto provenance =
      static_cast<std::size_t>(is_exact ? Provenance::kExact : Provenance::kBounded);
  const int age =
      hit.blocks.empty() ? 0 : kv_age(seat.node->kv.wall() - hit.blocks.back().last_use);
  ++seat.node->metrics.kv_hits.at(tier).at(provenance).at(static_cast<std::size_t>(age));
  seat.node->metrics.kv_hit_tokens += hit.found.tail ? hit.found.reuse.start : hit.found.reuse.hit;
}

// The request's own deadline would say nothing about the store.
void KvClient::load(const LoadKv& message) {
  const AttemptKey key = message.placement->key();
  const Instant due = seat.node->now() + seat.node->options.kv_load;
  KvLoad& load = loads.insert_or_assign(key, KvLoad(message.placement, layout, due)).first->second;
  if (!load.has_blocks()) {
    ask(key, load);
  }
  if (load.tail()) {
    ask_for_tail(key, load);
  }
}

void KvClient::ask_for_tail(const AttemptKey& key, const KvLoad& load) {
  const TailPlace place = *load.tail();
  if (place.node == seat.wiring->self) {
    const kernels::BlockBytes bytes = kept.find(place.buffer);
    notify(me,
           TailRead{key,
                    bytes ? Result<kernels::BlockBytes>(bytes)
                          : fail(Code::kNotFound, "the session's tail is gone")});
    return;
  }
  if (seat.node->transport() == nullptr) {
    notify(me, TailRead{key, fail(Code::kNotFound, "the tail is another node's")});
    return;
  }
  seat.node->transport()->fetch(
      place.node, place.buffer, load.due(), [client = me, key](Result<transport::Buffer> bytes) {
        notify(client, TailRead{key, std::move(bytes)});
      });
}

void KvClient::tail_read(const TailRead& message) {
  const auto entry = loads.find(message.key);
  if (entry == loads.end()) {
    return;
  }
  KvLoad& load = entry->second;
  if (!message.bytes) {
    // That it did not come in time says nothing of the store.
    load.miss_tail(Error{Code::kNotFound, "its session's tail: " + message.bytes.error().message});
  } else if (const auto checked = check_tail(*load.tail(), **message.bytes); !checked) {
    ++seat.node->metrics.kv_corrupt;
    load.miss_tail(checked.error());
  } else {
    load.take_tail(*message.bytes);
  }
  finish(entry);
}

void KvClient::ask(const AttemptKey& key, KvLoad& load) {
  load.asked(*store);
  store->get(load.wanted(), load.due(), [client = me, key](std::vector<transport::Loaded> blocks) {
    notify(client, KvRead{key, std::move(blocks)});
  });
}

// One slow disk or server among many must not make the prompt wait: whichever comes first counts.
void KvClient::hedge(const KvHedge& message) {
  const auto entry = loads.find(message.key);
  if (entry != loads.end() && entry->second.awaited() == 1 && !entry->second.has_blocks()) {
    ++seat.node->metrics.kv_hedged;
    ask(message.key, entry->second);
  }
}

bool KvClient::is_away(Code code) {
  return code == Code::kUnavailable || code == Code::kDeadline;
}

void KvClient::load_failed(const KvLoadFailed& message) {
  if (is_away(message.code)) {
    away_until = seat.node->now() + kAwayPause;
  } else {
    search->avoid(*message.placement, message.sound, message.code, seat.node->now());
  }
}

void KvClient::read(KvRead& message) {
  const auto entry = loads.find(message.key);
  if (entry == loads.end()) {
    return;  // the other read was faster
  }
  KvLoad& load = entry->second;
  if (const auto gap = load.take(std::move(message.blocks), *store)) {
    look_into(load, *gap);
  }
  finish(entry);
}

void KvClient::finish(std::map<AttemptKey, KvLoad>::iterator load) {
  if (!load->second.is_over()) {
    return;
  }
  ++seat.progress;
  const PlacementPtr placement = load->second.placement();
  KvLoaded loaded = std::move(load->second).result(*search);
  loads.erase(load);
  if (loaded.instead) {
    tell_shortened(*loaded.instead);
  }
  if (const std::size_t blocks = loaded.bytes.blocks.size(); blocks > 0) {
    const std::vector<BlockKey>& keys = placement->kv->keys;
    store->touch(keys[blocks - 1], static_cast<std::uint32_t>(keys.size() - blocks));
  }
  notify(seat.wiring->here().prefill_group, std::move(loaded));
}

void KvClient::tell_shortened(const KvShortened& instead) {
  ++seat.node->metrics.kv_loads_failed;
  seat.node->log.event(LogLevel::kWarning,
                       "kv.load_failed",
                       {{"request", instead.found.key.request},
                        {"loaded", instead.found.reuse.hit},
                        {"reason", instead.cause.message}});
}

// A block that is not there may be on its way here: what is behind it stays. A damaged one goes. In
// bounded mode so does what is behind it, which the attempt computes anew: else its own blocks were
// not stored, and behind others than its own its session's tail is of no use.
void KvClient::look_into(const KvLoad& load, const Error& error) {
  if (error.code == Code::kCorrupt) {
    const bool is_exact = load.placement()->span.mode == BasisMode::kExact;
    const auto damaged = std::span(load.placement()->kv->keys).subspan(load.sound());
    for (const BlockKey& key : is_exact ? damaged.first(1) : damaged) {
      store->drop(key);
    }
    ++seat.node->metrics.kv_corrupt;
  } else if (is_away(error.code)) {
    away_until = seat.node->now() + kAwayPause;
  }
}

// Requests complete all the same: whole, and their blocks are kept nowhere.
std::string KvClient::trouble() const {
  const Instant now = seat.node->now();
  const transport::BlockStore::Use use = store->use();
  if (!use.away.empty()) {
    return "the KV store is away: " + use.away;
  }
  if (now < away_until) {
    return "the KV store does not answer: is its file system mounted and its disk healthy?";
  }
  const bool is_recent = !refusal.empty() && now - refused_at < kRefusalShown;
  if (!use.writable || is_recent) {
    return "the KV store refuses writes" + (refusal.empty() ? refusal : ": " + refusal);
  }
  if (!use.answers) {
    return "files of the KV store cannot be read or removed: is its directory still there?";
  }
  return use.cramped.empty() ? damage.trouble(now) : "the KV store is cramped: " + use.cramped;
}

bool KvClient::is_stored(const KvBlock& block) const {
  const auto info = store->find(block.key);
  return info &&
         (info->provenance == Provenance::kExact || block.provenance == Provenance::kBounded);
}

// What the store does not take is a later miss.
void KvClient::save(const StoreKv& message) {
  if (is_gone) {
    seat.node->metrics.kv_dropped += std::ssize(message.blocks);
    return;
  }
  std::vector<std::vector<std::byte>> records;
  for (const SavedBlock& saved : message.blocks) {
    if (is_stored(saved.header)) {
      continue;
    }
    const Bytes bytes{kv_record_bytes(saved.bytes->size())};
    if (!quota.take(saved.root, bytes, seat.node->now())) {
      ++seat.node->metrics.kv_over_quota;
      continue;
    }
    KvBlock header = saved.header;
    header.layout = layout;
    header.numeric = numeric;
    if (seat.node->cluster != nullptr) {
      header.writer = IncarnationId{seat.node->cluster->incarnation};
    }
    records.push_back(make_kv_record(header, *saved.bytes));
  }
  if (!records.empty()) {
    store->put(std::move(records), [client = me](const std::vector<Result<void>>& results) {
      KvStored told;
      for (const Result<void>& stored : results) {
        if (!stored) {
          ++told.refused;
          told.error = stored.error();
        }
      }
      told.stored = std::ssize(results) - told.refused;
      notify(client, std::move(told));
    });
  }
}

// Said once in a while: what is wrong stays wrong for some time.
void KvClient::stored(const KvStored& message) {
  seat.node->metrics.kv_stored += message.stored;
  seat.node->metrics.kv_dropped += message.refused;
  has_news = has_news || message.stored > 0;
  if (message.refused == 0) {
    refusal.clear();
    return;
  }
  const Instant now = seat.node->now();
  if (refusal.empty() || now - refused_at >= kRefusalShown) {
    seat.node->log.event(LogLevel::kWarning, "kv.not_stored", {{"reason", message.error.message}});
  }
  refusal = message.error.message;
  refused_at = now;
}

void KvClient::store_tail(const StoreTail& message) {
  const BufferKey key = seat.node->next_buffer();
  if (!kept.keep(key, message.bytes, seat.node->transport(), seat.node->now())) {
    return;
  }
  const TailKept told{
      message.tail, {seat.wiring->self, key, message.tail.identity}, kept.limits().life};
  for (std::uint32_t n = 0; n < seat.wiring->nodes.size(); ++n) {
    const RouterActor& router = seat.wiring->nodes[n].router;
    if (router && NodeId{n} == seat.wiring->self) {
      tail_kept(told);
    } else if (router) {
      notify(router, told);
    }
  }
  show_kept();  // what it says can be found
}

void KvClient::tail_kept(const TailKept& message) {
  search->tails().add(message.tail, message.place, seat.node->now() + message.life);
}

void KvClient::rewire(const Rewire& message) {
  const WiringPtr before = std::exchange(seat.wiring, message.wiring);
  search->tails().drop_if(
      [this, &before](NodeId node) { return seat.wiring->lost(before->site(node)); });
}

void KvClient::tick() {
  const Instant now = seat.node->now();
  kept.expire(now);
  search->tails().expire(now);
  const transport::BlockStore::Use use = store->use();
  is_gone = !use.away.empty();
  is_opening = use.opening;
  if (!std::exchange(is_writable, use.writable) && use.writable) {
    refusal.clear();
  }
  if (!std::exchange(is_cramped, !use.cramped.empty()) && is_cramped) {
    seat.node->log.event(LogLevel::kWarning, "kv.cramped", {{"reason", use.cramped}});
  }
  tell_damage(use);
  show_kept();
  if (has_news && now - told_at >= kNewsPause) {
    has_news = false;
    told_at = now;
    tell_news();
  }
}

void KvClient::tell_damage(const transport::BlockStore::Use& use) {
  if (damage.see(use, seat.node->now())) {
    seat.node->log.event(LogLevel::kWarning,
                         "kv.damaged",
                         {{"records", use.corrupt},
                          {"index_pages", use.broken},
                          {"do", "`shoal kv verify` names them; they are misses"}});
  }
}

// The next turn may come to another node's router, and stores read each other's index but once in a
// while.
void KvClient::tell_news() const {
  for (std::uint32_t n = 0; n < seat.wiring->nodes.size(); ++n) {
    if (seat.wiring->nodes[n].router && NodeId{n} != seat.wiring->self) {
      notify(seat.wiring->nodes[n].router, KvNews{});
    }
  }
}

void KvClient::show_kept() const {
  seat.node->metrics.kv_tails = static_cast<std::int64_t>(kept.size());
  seat.node->metrics.kv_tail_bytes = kept.bytes().value;
}

KvClientActor::behavior_type kv_client(KvClientActor::stateful_pointer<KvClient> self,
                                       ContextPtr node,
                                       std::uint32_t part) {
  self->state.start(std::move(node), part);
  self->state.me = self;
  send_after(self, self->state.seat.node->options.tick, Tick{});
  return {
      [self](const Rewire& m) { self->state.rewire(m); },
      [self](const Ping&) {
        self->state.seat.answer_ping(!self->state.loads.empty(), self->state.trouble());
      },
      [self](const LookUpKv& m) { self->state.look_up(m); },
      [self](const KvClosed& m) { self->state.closed(m); },
      [self](const LoadKv& m) {
        self->state.load(m);
        send_after(self, self->state.seat.node->options.kv_hedge, KvHedge{m.placement->key()});
      },
      [self](const KvLoadFailed& m) { self->state.load_failed(m); },
      [self](KvRead& m) { self->state.read(m); },
      [self](const KvStored& m) { self->state.stored(m); },
      [self](const TailRead& m) { self->state.tail_read(m); },
      [self](const StoreTail& m) { self->state.store_tail(m); },
      [self](const TailKept& m) { self->state.tail_kept(m); },
      [self](const KvNews&) { self->state.store->refresh(); },
      [self](const Tick&) {
        self->state.tick();
        send_after(self, self->state.seat.node->options.tick, Tick{});
      },
      [self](const KvHedge& m) { self->state.hedge(m); },
      [self](const StoreKv& m) { self->state.save(m); },
  };
}

}  // namespace

KvClientActor spawn_kv_client(caf::actor_system& system, ContextPtr node, std::uint32_t part) {
  return system.spawn(kv_client, std::move(node), part);
}

}  // namespace shoal
