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

// Where the request goes on from it; 0: nowhere.
Position position_behind(const SessionTail& tail,
                         const ReuseAsk& ask,
                         const std::function<TokenId(Position)>& token) {
  const Position begin = tail.end / kBlockTokens * kBlockTokens;
  const Position shared = begin + agreement(tail, begin, ask.total, token);
  const Position position = std::min(shared, ask.total - 1);
  const bool is_within = ask.total >= tail.sampled && position >= tail.end - kTailRewind &&
                         position >= tail.basis.hit && position >= begin;
  return is_within && may_serve(ask, tail.basis) ? position : 0;
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
  const auto entry = tails_.emplace(until, Known{std::move(tail), place});
  const SessionTail& added = entry->second.tail;
  behind_[added.last].push_back(entry);
  if (added.end >= kBlockTokens) {
    ++lengths_[added.first][added.end / kBlockTokens];
  }
  places_.emplace(place, entry);
}

void TailDirectory::erase(Tails::iterator tail) {
  const SessionTail& gone = tail->second.tail;
  const auto behind = behind_.find(gone.last);
  std::erase(behind->second, tail);
  if (behind->second.empty()) {
    behind_.erase(behind);
  }
  if (gone.end >= kBlockTokens) {
    forget_length(gone);
  }
  places_.erase(tail->second.place);
  tails_.erase(tail);
}

void TailDirectory::forget_length(const SessionTail& gone) {
  const auto lengths = lengths_.find(gone.first);
  const auto length = lengths->second.find(gone.end / kBlockTokens);
  if (--length->second == 0) {
    lengths->second.erase(length);
  }
  if (lengths->second.empty()) {
    lengths_.erase(lengths);
  }
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

std::optional<TailHit> TailDirectory::find(
    const ReuseAsk& ask,
    const BlockKey& root,
    std::span<const BlockKey> keys,
    const std::function<TokenId(Position)>& token,
    const std::function<bool(const SessionTail&)>& may_be) const {
  std::optional<TailHit> best;
  const auto look = [&](const BlockKey& last) {
    const auto there = behind_.find(last);
    for (std::size_t t = 0; there != behind_.end() && t < there->second.size(); ++t) {
      const Known& known = there->second[t]->second;
      const Position position = position_behind(known.tail, ask, token);
      if (position > (best ? best->position : 0) && may_be(known.tail)) {
        best = TailHit{known.place, position, known.tail.basis};
      }
    }
  };
  if (const auto lengths = keys.empty() ? lengths_.end() : lengths_.find(keys.front());
      lengths != lengths_.end()) {
    for (auto next = lengths->second.upper_bound(std::ssize(keys));
         next != lengths->second.begin() && !best;) {
      --next;
      look(keys[static_cast<std::size_t>(next->first - 1)]);
    }
  }
  if (!best) {
    look(root);
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
