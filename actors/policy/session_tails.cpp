// Compares tokens from the last block they share.
#include "actors/policy/session_tails.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "schemas/check.h"

namespace shoal {
namespace {

// How far tail and request agree behind position `begin`, where the tail's last whole block ends.
Position agreement(const SessionTail& tail,
                   Position begin,
                   Position total,
                   const std::function<TokenId(Position)>& token) {
  Position agreed = 0;
  for (const TokenId open : tail.open) {
    if (begin + agreed >= total || token(begin + agreed) != open) {
      break;
    }
    ++agreed;
  }
  return agreed;
}

// A later attempt goes on only from its own numbers; a new one from any of its mode.
bool may_serve(const ReuseAsk& ask, const Basis& basis) {
  return ask.basis ? *ask.basis == basis : ask.mode == basis.mode;
}

}  // namespace

void TailDirectory::add(SessionTail tail, const TailPlace& place, Instant until) {
  drop(place);
  if (most_ == 0) {
    return;
  }
  if (tails_.size() >= most_) {
    erase(tails_.begin());
  }
  const BlockKey last = tail.last;
  const auto entry = tails_.emplace(until, Known{std::move(tail), place});
  behind_.emplace(last, entry);
  places_.emplace(place, entry);
}

void TailDirectory::erase(Tails::iterator tail) {
  const auto [begin, end] = behind_.equal_range(tail->second.tail.last);
  behind_.erase(
      std::find_if(begin, end, [tail](const auto& entry) { return entry.second == tail; }));
  places_.erase(tail->second.place);
  tails_.erase(tail);
}

void TailDirectory::drop(const TailPlace& place) {
  if (const auto known = places_.find(place); known != places_.end()) {
    erase(known->second);
  }
}

void TailDirectory::drop_if(const std::function<bool(NodeId)>& is_lost) {
  for (auto tail = tails_.begin(); tail != tails_.end();) {
    const auto next = std::next(tail);
    if (is_lost(tail->second.place.node)) {
      erase(tail);
    }
    tail = next;
  }
}

void TailDirectory::expire(Instant now) {
  while (!tails_.empty() && tails_.begin()->first <= now) {
    erase(tails_.begin());
  }
}

std::optional<TailHit> TailDirectory::find(const ReuseAsk& ask,
                                           const BlockKey& root,
                                           std::span<const BlockKey> keys,
                                           const std::function<TokenId(Position)>& token) const {
  std::optional<TailHit> best;
  for (std::size_t blocks = tails_.empty() ? 0 : keys.size() + 1; blocks-- > 0 && !best;) {
    const auto begin = static_cast<Position>(blocks) * kBlockTokens;
    const auto [first, last] = behind_.equal_range(blocks == 0 ? root : keys[blocks - 1]);
    for (auto entry = first; entry != last; ++entry) {
      const Known& known = entry->second->second;
      const Position shared = begin + agreement(known.tail, begin, ask.total, token);
      const Position position = std::min(shared, ask.total - 1);
      const bool is_within = ask.total >= known.tail.sampled &&
                             position >= known.tail.end - kTailRewind && position > 0 &&
                             position >= known.tail.basis.hit && position >= begin;
      if (is_within && may_serve(ask, known.tail.basis) && (!best || position > best->position)) {
        best = TailHit{known.place, position, known.tail.basis};
      }
    }
  }
  return best;
}

KvReuse plan_tail(const ReuseAsk& ask, const TailHit& tail, const Reach& reach) {
  CHECK(tail.position > 0 && tail.position < ask.total);
  const bool starts_decoder =
      !ask.basis && ask.mode == BasisMode::kBounded && ask.prompt - tail.position >= reach.window;
  const Position decoder = starts_decoder ? ask.prompt - reach.window : tail.position;
  return {
      tail.position / kBlockTokens * kBlockTokens, tail.position, tail.position, decoder, decoder};
}

Basis tail_basis(const ReuseAsk& ask, const TailHit& tail, const Reach& reach) {
  CHECK(!ask.basis);
  Basis basis = tail.basis;
  if (ask.mode == BasisMode::kBounded && ask.prompt - tail.position >= reach.window) {
    basis.tail_start = ask.prompt - reach.window;
  }
  return basis;
}

}  // namespace shoal
