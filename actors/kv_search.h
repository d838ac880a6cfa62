// What is there of a request, among the blocks of a store and the tails of all nodes, and what it
// takes of that. Reads what the store's index says; decisions are in policy/kv_reuse.h and
// policy/session_tails.h.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "actors/interfaces.h"
#include "actors/policy/kv_reuse.h"
#include "actors/policy/session_tails.h"
#include "transport/block_store.h"

namespace shoal {

struct KvHit {
  KvFound found;
  std::vector<transport::BlockInfo> blocks{};  // those to be loaded
};

class KvSearch {
 public:
  KvSearch(const transport::BlockStore& store, const Reach& reach) : store_(store), reach_(reach) {}

  // The tail that reaches furthest, else blocks.
  std::optional<KvHit> find(const Submission& submission, const KvNames& names, Instant now);

  // What could not be loaded, though it seemed to be there.
  void avoid(const Placement& placement, Instant now);

  TailDirectory& tails() { return tails_; }

 private:
  std::optional<KvHit> find_blocks(const Submission& submission, const KvNames& names) const;
  std::optional<KvHit> find_tail(const Submission& submission, const KvNames& names) const;
  std::vector<transport::BlockInfo> leading(std::span<const BlockKey> keys, bool exact_only) const;
  static bool is_of_session(const TailHit& tail,
                            std::span<const BlockKey> keys,
                            std::span<const transport::BlockInfo> infos);
  bool is_suspect(std::span<const BlockKey> keys) const;

  static constexpr std::size_t kMostTails = 65'536;

  const transport::BlockStore& store_;
  Reach reach_;
  TailDirectory tails_{kMostTails};
  std::map<BlockKey, Instant> suspects_;  // last blocks of hits, until when
};

}  // namespace shoal
