// Where sequences can be taken up in the middle of a block: a tail is what a worker kept of one
// (window rings, open block) when its prompt or its answer ended. Which one serves a request, and
// what the request's rows and basis are then.
//
// A tail is found by the tokens it stands behind: the keys of its first and last whole block and
// the tokens since. It serves the end of what it shares with the request, up to kTailReach
// positions before its own end, but never in another block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "actors/policy/kv_reuse.h"
#include "schemas/basis.h"
#include "schemas/block_key.h"
#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

// As the device says (kernels/kv_image.h).
inline constexpr Position kTailRewind = 7;

struct SessionTail {
  BlockKey last;              // of the last whole block before its end, or the root
  std::vector<TokenId> open;  // the tokens behind that
  Position end = 0;           // computed positions
  Position sampled = 0;  // the first position that was sampled: what came before may be cut off
  Basis basis{};
  BlockKey first;              // of the first whole block, or the root
  std::uint64_t lineage = 0;   // of its whole blocks, as the session took and computed them
  std::uint64_t identity = 0;  // of all of the above; its bytes begin with it
};

// Whose memory its bytes are in.
struct TailPlace {
  NodeId node;
  BufferKey buffer;
  std::uint64_t identity = 0;  // that they must begin with

  friend auto operator<=>(const TailPlace&, const TailPlace&) = default;
};

struct TailHit {
  TailPlace place;
  Position position = 0;  // where the request goes on
  Basis basis{};          // of the sequence that it goes on from
};

// Tails of all nodes, as a router's node knows them.
class TailDirectory {
 public:
  explicit TailDirectory(std::size_t most) : most_(most) {}

  // Beyond the ceiling the one that ends first is forgotten.
  void add(SessionTail tail, const TailPlace& place, Instant until);
  void drop(const TailPlace& place);
  void drop_if(const std::function<bool(NodeId)>& is_lost);
  void expire(Instant now);

  // The one that reaches furthest, of those that `may_be` allows. `token`: of the request, below
  // `ask.total`; `keys` of its whole blocks behind `root`. Looks at most once for every length that
  // tails with the same first block have.
  std::optional<TailHit> find(const ReuseAsk& ask,
                              const BlockKey& root,
                              std::span<const BlockKey> keys,
                              const std::function<TokenId(Position)>& token,
                              const std::function<bool(const SessionTail&)>& may_be) const;

  std::size_t size() const { return tails_.size(); }

 private:
  struct Known {
    SessionTail tail;
    TailPlace place;
  };

  // By the end of its time.
  using Tails = std::multimap<Instant, Known>;

  void erase(Tails::iterator tail);
  void forget_length(const SessionTail& gone);

  std::size_t most_;
  Tails tails_;
  std::unordered_map<BlockKey, std::vector<Tails::iterator>> behind_;  // by last block
  // By first block: whole blocks of tails, and how many have so many.
  std::unordered_map<BlockKey, std::map<Position, std::size_t>> lengths_;
  std::map<TailPlace, Tails::iterator> places_;
};

// The rows of a request that goes on from a tail, behind its whole blocks.
KvReuse plan_tail(const ReuseAsk& ask, const TailHit& tail, const Reach& reach);

// Of a first attempt that does: it looks back as far as the sequence before it did.
Basis tail_basis(const ReuseAsk& ask, const TailHit& tail, const Reach& reach);

}  // namespace shoal
