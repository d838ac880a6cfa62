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

  // The tail that reaches furthest, else blocks, else nothing.
  KvHit find(const Submission& submission, const KvNames& names, Instant now);

  // Where just these leading blocks are there, and no tail.
  KvHit behind(const Submission& submission,
               const KvNames& names,
               std::vector<transport::BlockInfo> infos) const;

  // A hit could not be loaded, though it seemed to be there: its blocks were as far as `sound`.
  void avoid(const Placement& placement, Position sound, Code code, Instant now);

  TailDirectory& tails() { return tails_; }

 private:
  // The leading blocks of a prompt, and the lineage behind none of them, the first, and so on.
  struct Leading {
    std::vector<transport::BlockInfo> infos;
    std::vector<std::uint64_t> lineages;
    std::size_t exact = 0;  // of them, from the first one on
  };

  // A damaged block, as it was then: another record of it is not damaged.
  struct Suspect {
    Instant until;
    transport::BlockInfo info;
  };

  bool is_suspect(const BlockKey& key, const transport::BlockInfo& info) const;
  std::vector<transport::BlockInfo> visible(std::span<const BlockKey> keys) const;
  static Leading leading(std::span<const BlockKey> keys, std::vector<transport::BlockInfo> infos);
  std::optional<KvHit> find_tail(const Submission& submission,
                                 const KvNames& names,
                                 const Leading& there) const;
  std::optional<KvHit> find_blocks(const Submission& submission, const Leading& there) const;
  KvReason why_none(const Submission& submission, const KvNames& names, const Leading& there) const;

  static constexpr std::size_t kMostTails = 65'536;

  const transport::BlockStore& store_;
  Reach reach_;
  TailDirectory tails_{kMostTails};
  std::map<BlockKey, Suspect> suspects_;
};

}  // namespace shoal
